"""Accepted rows in memory, until they are in the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.schema import Schema

Array = npt.NDArray[Any]


class RowBuffer:
    """Room for the rows of one chunk, from row number `start` on; a row is the bytes that the log gets.

    Rows are written once and never changed, so that a flush can read the earlier ones without a lock.
    """

    def __init__(self, schema: Schema, *, start: int, capacity: int, first_segment: int) -> None:
        self.schema, self.start, self.capacity = schema, start, capacity
        self.first_segment = first_segment
        """The log segment that was current when this buffer began: all its rows are in it or in later ones."""
        self._blank = schema.blank()
        self._rows = np.empty((capacity, schema.row_bytes), np.uint8)
        self._rows.fill(0)  # memory is given by the system now and not while a row is handed over
        self._bytes = memoryview(self._rows.data).cast("B")
        self.columns = {
            field.name: (schema.column(field, self._rows, count=capacity), field.shape)
            for field in schema.fields
        }
        self._names = self.columns.keys() - {"step", "wall_time"}

    @property
    def end(self) -> int:
        return self.start + self.capacity

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def put(self, index: int, step: int, wall_time: float, values: Mapping[str, Any]) -> list[str]:
        """Write one row, NaN where `values` has nothing; return what is wrong with a value, which is NaN then.

        Names that are no column are left out.
        """
        columns, problems = self.columns, []
        if not values.keys() >= self._names:
            self._rows[index] = self._blank
        columns["step"][0][index] = step
        columns["wall_time"][0][index] = wall_time
        with np.errstate(all="ignore"):
            for name, value in values.items():
                if name not in columns:
                    continue
                column, shape = columns[name]
                try:
                    if type(value) is not np.ndarray or value.shape != shape:
                        value = np.asarray(value)
                        if value.shape != shape:
                            raise ValueError(f"has shape {value.shape}, its array {shape}")
                    column[index] = value
                except (TypeError, ValueError) as error:
                    column[index] = np.nan
                    problems.append(f"{name}: {error}")
        return problems

    def again(self, *, start: int, first_segment: int) -> RowBuffer:
        """Return this buffer for other rows, once these are committed."""
        self.start, self.first_segment = start, first_segment
        return self

    def row(self, index: int) -> memoryview:
        size = self.schema.row_bytes
        return self._bytes[index * size : (index + 1) * size]

    def fill(self, count: int, columns: Mapping[str, Array]) -> None:
        """Set the first `count` rows; an array that is not in `columns` gets NaN."""
        self._rows[:count] = self._blank
        for name, values in columns.items():
            self.columns[name][0][:count] = values

    def under(self, schema: Schema, count: int) -> RowBuffer:
        """Return a buffer with the first `count` rows laid out by a schema with more arrays, NaN in these."""
        wider = RowBuffer(schema, start=self.start, capacity=self.capacity, first_segment=self.first_segment)
        wider._rows[:count] = wider._blank
        for name, (column, _) in self.columns.items():
            wider.columns[name][0][:count] = column[:count]
        return wider


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a stream begins or goes on: `buffers` end with the one that takes row number `rows`."""

    buffers: tuple[RowBuffer, ...]
    rows: int
    committed: int
    segment: int
    """Number of the log segment to begin."""
    oldest_segment: int
    last_step: int | None

    @classmethod
    def fresh(cls, schema: Schema, chunk_rows: int) -> Start:
        buffer = RowBuffer(schema, start=0, capacity=chunk_rows, first_segment=0)
        return cls(buffers=(buffer,), rows=0, committed=0, segment=0, oldest_segment=0, last_step=None)
