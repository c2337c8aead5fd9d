"""The writer's end of a stream's log: one file of frames, appended to with one system call a row."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from depthscope.store.frame import ROW, header, schema_frame
from depthscope.store.schema import Schema


def segment_path(tail: Path, stream: str, number: int) -> Path:
    return tail / f"{stream}.{number:08d}.log"


class Segment:
    """A log file open for appending.

    `end` is (number of the next row, bytes of whole frames). After an interrupt, `settle` decides whether the
    row under way counts: a reader may have seen it, so a row that was written whole is never taken back.
    """

    def __init__(self, path: Path, number: int, schema: Schema, next_row: int) -> None:
        """Create the file and write the schema; OSError when there is no room."""
        self.path, self.number, self.schema, self.first_row = path, number, schema, next_row
        self._file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._pending: tuple[int, int] | None = None
        self.end = (next_row, 0)
        try:
            self._write([schema_frame(schema)], next_row)
        except OSError:
            self.close()
            raise

    @property
    def next_row(self) -> int:
        return self.end[0]

    @property
    def deleted(self) -> bool:
        """True when nobody will find the file any more: what is written now would be accepted and lost."""
        return os.fstat(self._file).st_nlink == 0

    def append(self, step: int, wall_time: float, payload: Any, schema: Schema) -> None:
        """Write one row, and its schema first where that changed; OSError when it did not fit on the disk."""
        row = self.end[0]
        parts = [header(ROW, row, step, wall_time, payload), payload]
        if schema is not self.schema:
            parts.insert(0, schema_frame(schema))
        self._write(parts, row + 1)
        self.schema = schema

    def settle(self) -> bool:
        """Bring the file and `end` together again after a write that did not return; True when it counts."""
        pending = self._pending
        if pending is None:
            return False
        whole = os.fstat(self._file).st_size == pending[1]
        if whole:
            self.end = pending
        else:
            os.ftruncate(self._file, self.end[1])
        self._pending = None
        return whole

    def _write(self, parts: list[Any], next_row: int) -> None:
        total = sum(map(len, parts))
        self._pending = pending = (next_row, self.end[1] + total)
        written = os.writev(self._file, parts)
        if written != total:
            # A full disk writes short without an exception.
            self.settle()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self.end = pending
        self._pending = None

    def duplicate(self) -> int:
        """Return a descriptor of the file that stays valid when the segment is closed."""
        return os.dup(self._file)

    def close(self) -> None:
        handle, self._file = self._file, -1
        if handle >= 0:
            os.close(handle)
