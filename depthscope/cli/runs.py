"""Finding the runs that a user names, with errors that say what lies there instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from depthscope.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    from depthscope.store import Run

SHOWN = 8
"""How many names an error lists."""


def existing(text: str, command: str) -> Path:
    """Return the path; a UsageError with the closest name beside it where nothing is there."""
    path = Path(text).expanduser()
    if path.exists():
        return path
    above = path.parent
    names = sorted(entry.name for entry in above.iterdir()) if above.is_dir() else []
    close = get_close_matches(path.name, names, n=1, cutoff=0.6)
    hint = f"\nDid you mean {above / close[0]}?" if close else ""
    start = "" if hint else "\nRecord one with depthscope.Recorder(model, path), or type: depthscope demo"
    raise UsageError(f"{command}: {text} does not exist.{hint}{start}")


def open_named(text: str, command: str) -> Run:
    """Return the run at the path `text`, a part of a run included; UsageError where there is none."""
    from depthscope.store import NotARun, RunError, find_runs, open_run

    path = existing(text, command)
    for place in (path, *path.absolute().parents[:3]):
        if (place / "run.json").is_file():
            path = place
            break
    else:
        below = find_runs(path, broken=lambda folder, error: None) if path.is_dir() else []
        if below:
            names = [str(run.path) for run in below[:SHOWN]]
            more = f"\n  and {len(below) - SHOWN} more" if len(below) > SHOWN else ""
            raise UsageError(
                f"{command}: {text} is no run but holds {len(below)} of them. Name one:\n  "
                + "\n  ".join(f"depthscope {command} {name}" for name in names)
                + more
            )
    try:
        return open_run(path)
    except NotARun as error:
        raise UsageError(f"{command}: {error}") from None
    except RunError as error:
        raise CliError(f"{command}: {error}") from None


def runs_below(text: str, command: str) -> tuple[list[Run], list[str]]:
    """Return the runs at or below the path `text`, and what is wrong with those that cannot be opened.

    UsageError where there is neither.
    """
    from depthscope.store import find_runs

    path = existing(text, command)
    if not path.is_dir():
        raise UsageError(f"{command}: {text} is a file; expected a run or a folder of runs.")
    problems: list[str] = []
    found = find_runs(path, broken=lambda folder, error: problems.append(str(error)))
    if not found and not problems:
        inside = sorted(entry.name for entry in path.iterdir())
        holds = f"holds {', '.join(inside[:SHOWN])}" if inside else "is empty"
        raise UsageError(
            f"{command}: no run at or below {text}: the folder {holds}; expected folders with run.json in them.\n"
            "Record one with depthscope.Recorder(model, path), or type: depthscope demo"
        )
    return found, problems


def note_late(command: str, asked: Sequence[int], last: int | None) -> None:
    """Say on stderr of steps after the `last` recorded one that this one is used."""
    for step in asked:
        if last is not None and step > last:
            note = f"no record at step {step}: the last recorded step is {last}; it is used"
            print(f"depthscope: {command}: {note}", file=sys.stderr)


def several(texts: Sequence[str], command: str) -> list[Run]:
    """Return the runs that paths name, in their order: a run, a part of one, or a folder with runs below it.

    A run that is named twice counts once. Of a folder, runs that cannot be opened are named on stderr and left
    out. UsageError where a path holds no run, CliError where one that is named itself, or all of them, cannot be
    opened.
    """
    found: dict[Path, Run] = {}
    broken: list[str] = []
    for text in texts:
        path = existing(text, command)
        inside = any((place / "run.json").is_file() for place in (path, *path.absolute().parents[:3]))
        if inside or not path.is_dir():
            opened = [open_named(text, command)]
        else:
            opened, problems = runs_below(text, command)
            broken += problems
        found.update({Path(run.path).resolve(): run for run in opened})
    if not found:
        raise CliError(f"{command}: " + "\n".join(broken))
    for problem in dict.fromkeys(broken):
        print(f"depthscope: {command}: left out: {problem}", file=sys.stderr)
    return list(found.values())


def named_itself(run: Run, texts: Sequence[str]) -> bool:
    """Return whether one of the paths that were typed is the run or a part of it, not a folder above it."""
    path = Path(run.path).resolve()
    typed = [Path(text).expanduser().resolve() for text in texts]
    return any(path == one or path in one.parents for one in typed)
