"""A flush: rows of one stream out of memory into the arrays, then the commit, then the old log goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy.typing as npt

from depthscope.store.column import Column
from depthscope.store.commit import Committer, StreamState
from depthscope.store.level import PYRAMID
from depthscope.store.pyramid import Pyramid
from depthscope.store.schema import Field
from depthscope.store.stream import StreamRows

Array = npt.NDArray[Any]


class Flusher:
    """Owns the arrays on disk. One thread at a time."""

    def __init__(
        self,
        committer: Committer,
        new_column: Callable[[str, Field, int], Column],
        new_pyramid: Callable[[str], Pyramid],
        *,
        fsync: bool,
    ) -> None:
        self._committer, self._new_column, self._fsync = committer, new_column, fsync
        self._new_pyramid = new_pyramid
        self._pyramids: dict[str, Pyramid] = {}
        self._columns: dict[str, dict[str, Column]] = {}

    def create(self, rows: StreamRows) -> None:
        """Make a stream's arrays, still without rows, part of the next commit."""
        for field in rows.schema.fields:
            self._column(rows.name, field, 0)
        self.describe(rows, 0, 0)

    def adopt(self, stream: str, field: Field, first_row: int) -> None:
        """Take over an array that is on disk already; `rows_changed_from` says where it goes on."""
        self._column(stream, field, first_row)

    def rows_changed_from(self, stream: str, row: int, read: Callable[[str, int, int], Array]) -> None:
        """Go on behind the first `row` rows of a stream: what was known of later ones holds no longer.

        `read(array, start, stop)` returns rows that are on disk. Whatever is derived from rows has to be cut
        here.
        """
        columns = self._columns[stream]
        for name, column in columns.items():
            column.continue_from(row, partial(read, name))
        fields = [column.field for column in columns.values()]
        self._pyramid(stream).rebuild_from(row, fields, read, self._committer.nodes(PYRAMID))

    def describe(self, rows: StreamRows, count: int, segment: int) -> None:
        """Make `count` rows of a stream, whose log goes on in `segment`, part of the next commit."""
        columns = self._columns[rows.name].values()
        described = [(f"{rows.name}/{column.field.key}", column.set_length(count)) for column in columns]
        described += self._pyramid(rows.name).describe(count)
        # Only now that all of it is on the disk: a commit between two of these would mix lengths.
        for path, metadata in described:
            self._committer.add(path, metadata)
        self._committer.set_stream(rows.name, StreamState(rows=count, segment=segment))

    def flush(self, rows: StreamRows, *, everything: bool) -> bool:
        """Commit what is ready; False when there was nothing. OSError leaves the last commit as it was."""
        batch = rows.take(everything=everything)
        if batch is None:
            return False
        pyramid = self._pyramid(rows.name)
        for buffer in batch.buffers:
            count = min(buffer.capacity, batch.rows - buffer.start)
            if count:
                fields = buffer.schema.fields
                values = {field.name: buffer.columns[field.name][0][:count] for field in fields}
                for field in fields:
                    column = self._column(rows.name, field, buffer.start)
                    column.write(buffer.start, values[field.name], fsync=self._fsync)
                pyramid.take(buffer.start, fields, values)
        columns = self._columns[rows.name].values()
        for column in columns:
            column.finish(fsync=self._fsync)
        pyramid.write(fsync=self._fsync)
        self.describe(rows, batch.rows, batch.segment)
        self._committer.commit()
        for column in columns:
            column.committed = batch.rows
        pyramid.committed()
        rows.committed_to(batch)
        return True

    def _pyramid(self, stream: str) -> Pyramid:
        if stream not in self._pyramids:
            self._pyramids[stream] = self._new_pyramid(stream)
        return self._pyramids[stream]

    def _column(self, stream: str, field: Field, first_row: int) -> Column:
        columns = self._columns.setdefault(stream, {})
        if field.name not in columns:
            columns[field.name] = self._new_column(stream, field, first_row)
        return columns[field.name]
