"""The commit: one atomic replacement of the root ``zarr.json``. Nothing else writes that file.

It holds the consolidated metadata, hence the committed length of every array, and in its attributes, under
``depthscope``, which rows of which stream are in the arrays and which log segment goes on from there.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depthscope.store.errors import FORMAT
from depthscope.store.files import read_json, replace_file, sync_folder
from depthscope.store.history import Gap
from depthscope.store.metadata import group_metadata

ROOT = "zarr.json"
_COMMITTED = ("_streams", "_nodes", "_gaps", "_epoch", "_rewinds")


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """Where a stream stands: its first `rows` rows are in the arrays, segment `segment` goes on from there."""

    rows: int
    segment: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What a root ``zarr.json`` says."""

    run: str
    """The run's id: a folder may hold another run than a moment ago."""
    format: int
    epoch: int
    """Goes up whenever committed rows stop being a prefix of what was committed before."""
    closed: bool
    streams: Mapping[str, StreamState]
    rewinds: tuple[tuple[int, int, int], ...]
    notes: Mapping[str, Any]
    gaps: tuple[Gap, ...]
    nodes: Mapping[str, Mapping[str, Any]]
    """The metadata of every group and array by its path."""
    attributes: Mapping[str, Any]
    """Those of the root group, without what is said here."""


class Committer:
    """Gathers what the next commit will say, and commits."""

    def __init__(self, store: Path, *, run: str, attributes: Mapping[str, Any], fsync: bool) -> None:
        self._store, self._run, self._attributes, self._fsync = store, run, dict(attributes), fsync
        self._lock = threading.Lock()
        self._streams: dict[str, StreamState] = {}
        self._nodes: dict[str, str] = {}
        self._notes: dict[str, Any] = {}
        self._gaps: list[Gap] = []
        self._epoch = 0
        self._rewinds: list[tuple[int, int, int]] = []
        self._closed = False
        self.stale = False
        """True when a note waits for a commit."""

    @classmethod
    def resume(cls, store: Path, commit: Commit, *, fsync: bool) -> Committer:
        """Go on from a commit on disk; the next one opens the run again if it was closed."""
        committer = cls(store, run=commit.run, attributes=commit.attributes, fsync=fsync)
        for path, node in commit.nodes.items():
            committer.add(path, json.dumps(node, separators=(",", ":")))
        committer._streams = dict(commit.streams)
        committer._notes = {key: value for key, value in commit.notes.items() if key != "stopped"}
        committer._gaps = list(commit.gaps)
        committer._epoch, committer._rewinds = commit.epoch, list(commit.rewinds)
        return committer

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget what was set inside when it ends with an exception."""
        saved = {name: copy(getattr(self, name)) for name in _COMMITTED}
        try:
            yield
        except BaseException:
            vars(self).update(saved)
            raise

    def rewind(self, *, row: int, step: int) -> None:
        """Begin a new epoch that has only rows of smaller steps than `step`."""
        self._epoch += 1
        self._rewinds.append((self._epoch, row, step))
        with self._lock:
            self._gaps = [gap for gap in self._gaps if gap.first_step < step]

    def add_gap(self, gap: Gap) -> None:
        with self._lock:
            self._gaps.append(gap)
            self.stale = True

    def add(self, path: str, metadata: str) -> None:
        """Take the metadata of a group or array, as JSON, into the next commit.

        As text, since most of it stays: to encode all arrays at once would hold the interpreter for 5 ms.
        """
        self._nodes[path] = f"{json.dumps(path)}:{metadata}"

    def nodes(self, group: str) -> dict[str, dict[str, Any]]:
        """Return the metadata of what lies in a group of the next commit, by path."""
        found: dict[str, dict[str, Any]] = {}
        for path, text in self._nodes.items():
            if path.startswith(f"{group}/"):
                found |= json.loads(f"{{{text}}}")
        return found

    def set_stream(self, name: str, state: StreamState) -> None:
        self._streams[name] = state

    def annotate(self, key: str, value: Any) -> None:
        with self._lock:
            known = self._notes.get(key)
            if isinstance(known, dict) and isinstance(value, dict):
                value = {**known, **value}
            self._notes = {**self._notes, key: value}
            self.stale = True

    def close(self) -> None:
        self._closed = True

    def commit(self) -> None:
        """Replace the root; OSError when the disk refuses."""
        with self._lock:
            self.stale, notes = False, self._notes
            gaps: dict[str, list[tuple[object, ...]]] = {}
            for stream, *gap in self._gaps:
                gaps.setdefault(str(stream), []).append(tuple(gap))
        state = {
            "format": FORMAT,
            "run": self._run,
            "epoch": self._epoch,
            "streams": {name: {"rows": s.rows, "segment": s.segment} for name, s in self._streams.items()},
            "rewinds": self._rewinds,
            "closed": self._closed,
            "notes": notes,
            "gaps": gaps,
        }
        nodes = f"{{{','.join(self._nodes[path] for path in sorted(self._nodes))}}}"
        state["crc32"] = _checksum(state, nodes)
        root = json.dumps(group_metadata({**self._attributes, "depthscope": state}), separators=(",", ":"))
        consolidated = f'{{"kind":"inline","must_understand":false,"metadata":{nodes}}}'
        content = f'{root[:-1]},"consolidated_metadata":{consolidated}}}'.encode()
        try:
            replace_file(self._store / ROOT, content, fsync=self._fsync)
        except OSError:
            self.stale = True
            raise
        if self._fsync:
            sync_folder(self._store)


def _checksum(state: Mapping[str, Any], nodes: str) -> int:
    return zlib.crc32(nodes.encode(), zlib.crc32(json.dumps(state, separators=(",", ":")).encode()))


def read_commit(store: Path, *, verify: bool = False) -> Commit:
    """Parse a root ``zarr.json``; ValueError says what does not hold, FileNotFoundError when it is not there.

    `verify` also compares its checksum: whoever deletes what the commit does not name has to be sure of it.
    """
    root = read_json(store / ROOT)
    try:
        state = root["attributes"]["depthscope"]
        found = state["format"]
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise ValueError(f"{ROOT} has format {found!r}")
        if found > FORMAT:
            return Commit(
                run="",
                format=found,
                epoch=0,
                closed=False,
                streams={},
                rewinds=(),
                notes={},
                gaps=(),
                nodes={},
                attributes={},
            )
        streams = {
            str(name): StreamState(rows=_count(entry["rows"]), segment=_count(entry["segment"]))
            for name, entry in state["streams"].items()
        }
        nodes = root["consolidated_metadata"]["metadata"]
        if not isinstance(nodes, dict) or not all(isinstance(node, dict) for node in nodes.values()):
            raise ValueError(f"{ROOT} has consolidated metadata that is no object of objects")
        if (
            verify
            and "crc32" in state
            and state["crc32"]
            != _checksum(
                {key: value for key, value in state.items() if key != "crc32"},
                json.dumps(nodes, separators=(",", ":")),
            )
        ):
            raise ValueError(f"{ROOT} was changed after it was written: its checksum does not fit")
        for path in nodes:
            if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in path.split("/")):
                raise ValueError(f"{ROOT} names an array {path!r}, which is no path inside the store")
        notes = state.get("notes", {})
        return Commit(
            run=str(state["run"]),
            format=found,
            epoch=_count(state["epoch"]),
            closed=state["closed"] is True,
            streams=streams,
            rewinds=tuple((int(e), int(r), int(s)) for e, r, s in state.get("rewinds", ())),
            notes=notes if isinstance(notes, dict) else {},
            gaps=tuple(
                Gap(str(stream), int(row), int(first), int(last), int(rows), *map(str, reason))
                for stream, found in state.get("gaps", {}).items()
                for row, first, last, rows, *reason in found
            ),
            nodes=nodes,
            attributes={key: value for key, value in root["attributes"].items() if key != "depthscope"},
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{ROOT} lacks what a commit holds ({type(error).__name__}: {error})") from None


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{ROOT} has {value!r} where a count belongs")
    return value
