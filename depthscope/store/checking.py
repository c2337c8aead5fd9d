"""A run looked over from end to end: do its files hold what its commit and its logs say?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from depthscope.store.arrays import describe_array, read_rows
from depthscope.store.cleaning import leftovers
from depthscope.store.commit import read_commit
from depthscope.store.errors import RunError
from depthscope.store.files import read_json
from depthscope.store.folder import LOGS, RANK, STORE, attempt_folder
from depthscope.store.identities import IDENTITIES
from depthscope.store.level import PYRAMID
from depthscope.store.run import Run, open_run
from depthscope.store.snapshot import Snapshot
from depthscope.store.tail import Moved, TailIndex

_SHOWN = 3
_BLOCK_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    part: str
    found: str
    passed: bool


def check_run(path: str | os.PathLike[str]) -> list[Check]:
    """Look at every file of the run at `path`, live or not; NotARun when there is none. Nothing is changed.

    Every chunk is unpacked, which takes about as long as reading the run does.
    """
    folder = Path(path).absolute()
    checks = _of_run(folder)
    if not all(check.passed for check in checks):
        return checks
    run = open_run(folder)
    checks += _of_files(folder)
    if all(check.passed for check in checks):
        checks += _identities(run)
    return checks


def _of_run(folder: Path) -> list[Check]:
    """Can it be opened, and is its commit as it was written?"""
    try:
        run = open_run(folder)
        commit = read_commit(folder / RANK / STORE, verify=True)
    except RunError as error:
        if not (folder / "run.json").exists():
            raise
        return [Check(part="run", found=str(error), passed=False)]
    except (ValueError, OSError) as error:
        return [Check(part="commit", found=str(error), passed=False)]
    rows = ", ".join(f"{state.rows} {name}" for name, state in commit.streams.items())
    gaps = sum(gap.rows for gap in run.gaps)
    dropped = f", {gaps} rows dropped in {len(run.gaps)} gaps" if gaps else ""
    attempts = f", attempt {len(run.attempts) + 1}" if run.attempts else ""
    return [
        Check(part="run", found=f"format 1, {run.status}{attempts}{dropped}", passed=True),
        Check(part="commit", found=f"checksum fits; rows: {rows or 'none'}", passed=True),
    ]


def _of_files(folder: Path) -> list[Check]:
    rank = folder / RANK
    commit = read_commit(rank / STORE)
    snapshot = Snapshot(store=rank / STORE, commit=commit, tails={})
    checks = [
        _of_stream(f"stream {stream}", snapshot, stream, own_metadata=True) for stream in commit.streams
    ]
    checks += [_of_bins(snapshot, stream) for stream in commit.streams]
    for number in range(1, len(commit.rewinds) + 1):
        later = tuple(attempt_folder(rank, k) for k in range(number + 1, len(commit.rewinds) + 1))
        place = attempt_folder(rank, number)
        try:
            earlier = Snapshot(store=place, commit=read_commit(place), tails={}, later=(*later, rank / STORE))
        except (ValueError, OSError) as error:
            checks.append(Check(part=f"attempt {number}", found=str(error), passed=False))
            continue
        checks += [
            _of_stream(f"attempt {number}, {stream}", earlier, stream) for stream in earlier.commit.streams
        ]
    checks += _of_logs(rank, closed=commit.closed)
    left = leftovers(folder, commit)
    tidy = f"{len(left)} files of an interrupted writer; depthscope recover removes them" if left else "none"
    return [*checks, Check(part="leftovers", found=tidy, passed=True)]


def _of_bins(snapshot: Snapshot, stream: str) -> Check:
    """Do the chunks of the levels that screens read unpack, as they were written?"""
    problems, count = list[str](), 0
    for path, node in snapshot.commit.nodes.items():
        if not path.startswith(f"{PYRAMID}/{stream}/") or node.get("node_type") != "array":
            continue
        if node.get("dimension_names", [""])[:1] != ["bin"]:
            continue
        count += 1
        try:
            stored = describe_array(snapshot.store / path, node, over="bin")
            for begin, end in _blocks(stored.rows):
                read_rows(stored, begin, end)
        except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
            problems.append(str(error))
    found = f"{count} arrays of bins, every chunk unpacks" if count else "no level yet"
    return Check(part=f"levels {stream}", found=_shown(problems) or found, passed=not problems)


def _of_stream(part: str, snapshot: Snapshot, stream: str, *, own_metadata: bool = False) -> Check:
    """Do all arrays have the stream's rows, in chunks that unpack, and do steps never go back?"""
    rows, problems, count = snapshot.commit.streams[stream].rows, list[str](), 0
    interrupted = ""
    for path, node in snapshot.commit.nodes.items():
        if path.rpartition("/")[0] != stream or node.get("node_type") != "array":
            continue
        try:
            if node.get("dimension_names", [""])[:1] == ["step"]:
                count += 1
                if node["shape"][0] != rows:
                    raise ValueError(f"{path} has {node['shape'][0]} rows, its stream {rows}")
                stored = snapshot.stored_at(path)
                for begin, end in _blocks(rows):
                    read_rows(stored, begin, end)
            if own_metadata and read_json(snapshot.store / path / "zarr.json") != node:
                if snapshot.commit.closed:
                    raise ValueError(f"{path}/zarr.json differs from the commit")
                interrupted = ", a commit is under way or was interrupted: depthscope recover finishes it"
        except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
            problems.append(str(error))
    if not problems and (np.diff(snapshot.steps(stream)) < 0).any():
        problems.append("steps go back")
    found = f"{rows} rows in {count} arrays, every chunk unpacks{interrupted}"
    return Check(part=part, found=_shown(problems) or found, passed=not problems)


def _of_logs(rank: Path, *, closed: bool) -> list[Check]:
    if closed:
        return []
    tails = TailIndex(rank / LOGS)
    for _ in range(25):
        commit = read_commit(rank / STORE)
        if commit.closed:
            return []
        try:
            pieces = tails.refresh(commit, tails.files())
        except Moved:
            continue
        damaged = {log.name for log in tails.damaged()}
        checks = []
        for stream, found in pieces.items():
            bad = sorted(name for name in damaged if name.startswith(f"{stream}."))
            rows = sum(piece.count for piece in found)
            text = f"{rows} rows, every checksum fits"
            text = f"after {rows} rows, {', '.join(bad)} holds bytes that are no row" if bad else text
            checks.append(Check(part=f"log {stream}", found=text, passed=not bad))
        return checks
    return [Check(part="logs", found=f"{rank / LOGS} lacks the logs that the commit names", passed=False)]


def _identities(run: Run) -> Iterator[Check]:
    for name, (needs, largest, tolerance) in IDENTITIES.items():
        if all(need in run for need in needs):
            worst = _worst(run, needs, largest)
            passed = not worst > tolerance
            found = "no row to hold it against" if worst < 0 else f"off by {worst:.2g}, allowed {tolerance:g}"
            yield Check(part=name, found=found, passed=passed)


def _worst(run: Run, needs: tuple[str, ...], largest: Callable[..., float]) -> float:
    """Return the largest deviation over all rows; negative when no row has a value."""
    steps = run[needs[0]]["step"].values
    worst = -1.0
    for begin, end in _blocks(len(steps)):
        stop = None if end == len(steps) else int(steps[end])
        values = {name: run.read(name, start=int(steps[begin]), stop=stop).values for name in needs}
        count = min(map(len, values.values()))
        worst = max(worst, largest({name: rows[:count] for name, rows in values.items()}, run.layout))
    return worst


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, rows, _BLOCK_ROWS):
        yield begin, min(begin + _BLOCK_ROWS, rows)


def _shown(problems: list[str]) -> str:
    more = f", and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more
