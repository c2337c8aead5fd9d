"""The reader's end of the logs: which accepted rows lie where, kept up to date as the logs grow."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from depthscope.store.commit import Commit, read_commit
from depthscope.store.folder import LOGS, STORE
from depthscope.store.frame import HEADER_BYTES, ROW, BadFrame, read_frame, read_schema
from depthscope.store.schema import Schema

Array = npt.NDArray[Any]
_BLOCK_BYTES = 16 * 2**20
_LARGEST_FRAME = 2**28
_NAME = re.compile(r"(.+)\.(\d{8,})\.log")


class Moved(Exception):
    """Files went away or changed while they were read: the writer committed. Read the root again."""


@dataclass(kw_only=True)
class Span:
    """Consecutive rows of one schema in one log file, at equal distances."""

    path: Path
    inode: int
    schema: Schema
    first_row: int
    start: int
    """Where the first row's payload begins."""
    steps: list[int] = field(default_factory=list)

    @property
    def stride(self) -> int:
        return self.schema.row_bytes + HEADER_BYTES


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a span, as it was when a snapshot was taken: `count` rows from index `skip` on."""

    span: Span
    skip: int
    count: int

    @property
    def steps(self) -> list[int]:
        return self.span.steps[self.skip : self.skip + self.count]

    def read(self, name: str, start: int, stop: int) -> Array | None:
        """Return rows [start, stop) of the piece, [n, ...]; None when the array is not in this schema.

        Moved when the log is gone: its rows are committed by now.
        """
        span = self.span
        wanted = next((f for f in span.schema.fields if f.name == name), None)
        if wanted is None:
            return None
        count = stop - start
        begin = span.start + (self.skip + start) * span.stride
        size = (count - 1) * span.stride + span.schema.row_bytes
        try:
            with open(span.path, "rb") as file:
                if os.fstat(file.fileno()).st_ino != span.inode:
                    raise Moved
                file.seek(begin)
                content = file.read(size)
        except FileNotFoundError:
            raise Moved from None
        if len(content) != size:
            raise Moved
        return span.schema.column(wanted, content, count=count, stride=span.stride)


class LogIndex:
    """What one log file holds so far."""

    def __init__(self, path: Path, inode: int) -> None:
        self.path, self.inode = path, inode
        self.spans: list[Span] = []
        self.torn = False
        """True when bytes follow that are no frame: an interrupted write, to be replaced by the writer."""
        self._schema: Schema | None = None
        self._parsed = 0

    @property
    def parsed(self) -> int:
        return self._parsed

    def grow(self) -> None:
        """Parse what was added since."""
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_ino != self.inode:
                raise Moved
            self.torn, block = False, _BLOCK_BYTES
            while not self.torn:
                file.seek(self._parsed)
                content = memoryview(file.read(block))
                used = self._parse(content)
                self._parsed += used
                if len(content) < block:
                    return
                if not used:
                    self.torn, block = block >= _LARGEST_FRAME, block * 4

    def _parse(self, content: memoryview) -> int:
        """Take in the whole frames at the beginning of `content`; return their bytes."""
        position = 0
        try:
            while (frame := read_frame(content, position)) is not None:
                if frame.kind == ROW:
                    self._add(frame.row, frame.step, self._parsed + frame.start, frame.end - frame.start)
                else:
                    self._schema = read_schema(content, frame)
                position = frame.end
        except BadFrame:
            self.torn = True
        return position

    def _add(self, row: int, step: int, start: int, size: int) -> None:
        schema = self._schema
        if schema is None or size != schema.row_bytes:
            raise BadFrame("a row that does not fit its schema")
        last = self.spans[-1] if self.spans else None
        if last is None or last.schema is not schema or row != last.first_row + len(last.steps):
            last = Span(path=self.path, inode=self.inode, schema=schema, first_row=row, start=start)
            self.spans.append(last)
        last.steps.append(step)


class TailIndex:
    """All logs of a rank."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, LogIndex] = {}
        self._unplaced: set[Path] = set()

    def files(self) -> tuple[tuple[str, int, int], ...]:
        """Return (name, inode, size) of every log: what `refresh` depends on."""
        found = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name):
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        found.append((entry.name, status.st_ino, status.st_size))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        return tuple(sorted(found))

    def any_row(self, files: tuple[tuple[str, int, int], ...]) -> bool:
        """Tell whether any log holds a row; a run whose creation was interrupted has logs without one."""
        for name, inode, _ in files:
            log = LogIndex(self._folder / name, inode)
            log.grow()
            if log.spans:
                return True
        return False

    def damaged(self) -> tuple[Path, ...]:
        """Return the logs in which something is no frame, and those whose rows go on from nothing."""
        torn = {log.path for log in self._logs.values() if log.torn}
        return tuple(sorted(torn | self._unplaced))

    def refresh(
        self, commit: Commit, files: tuple[tuple[str, int, int], ...], *, incomplete: bool = False
    ) -> dict[str, tuple[Piece, ...]]:
        """Return the rows of each stream that go on from the commit; Moved when the commit is no longer the last.

        `incomplete`: nobody writes, and logs may be missing; a stream without its log has the committed rows.
        """
        logs: dict[str, LogIndex] = {}
        for name, inode, size in files:
            log = self._logs.get(name)
            if log is None or log.inode != inode or size < log.parsed or log.torn:
                log = LogIndex(self._folder / name, inode)
            logs[name] = log
        self._logs = logs
        self._unplaced = set()
        return {stream: self._pieces(stream, commit, incomplete) for stream in commit.streams}

    def _pieces(self, stream: str, commit: Commit, incomplete: bool) -> tuple[Piece, ...]:
        state = commit.streams[stream]
        numbered = []
        for name, log in self._logs.items():
            match = _NAME.fullmatch(name)
            if match and match[1] == stream and int(match[2]) >= state.segment:
                numbered.append((int(match[2]), log))
        numbered.sort(key=lambda entry: entry[0])
        if not incomplete and (not numbered or numbered[0][0] != state.segment):
            raise Moved
        pieces: list[Piece] = []
        expected = state.rows
        for _, log in numbered:
            try:
                log.grow()
            except FileNotFoundError:
                if incomplete:  # gone again since it was listed
                    continue
                raise Moved from None
            for span in log.spans:
                skip, count = expected - span.first_row, len(span.steps)
                if skip < 0:
                    self._unplaced.add(log.path)
                    continue
                if count > skip:
                    pieces.append(Piece(span=span, skip=skip, count=count - skip))
                    expected += count - skip
        return tuple(pieces)


def log_numbers(folder: Path, stream: str) -> list[int]:
    """Return the numbers of a stream's log segments that are there."""
    matches = [_NAME.fullmatch(path.name) for path in folder.glob(f"{stream}.*.log")]
    return sorted(int(match[2]) for match in matches if match and match[1] == stream)


def rows_in(rank: Path) -> str:
    """Say in a few words what a rank's folder holds; empty when it holds no row."""
    store = rank / STORE
    tails = TailIndex(rank / LOGS)
    files = tails.files()
    try:
        commit = read_commit(store)
    except FileNotFoundError:
        return "without a commit, but with rows in its logs" if tails.any_row(files) else ""
    except (OSError, ValueError) as error:
        return f"which cannot be read: {error}"
    if not commit.streams and not commit.run:
        return f"of format {commit.format}"
    rows = {name: state.rows for name, state in commit.streams.items()}
    if not commit.closed:
        try:
            for name, pieces in tails.refresh(commit, files).items():
                rows[name] += sum(piece.count for piece in pieces)
        except Moved:
            pass
    counts = ", ".join(f"{count} in {name}" for name, count in rows.items() if count)
    return f"rows: {counts}" if counts else ""
