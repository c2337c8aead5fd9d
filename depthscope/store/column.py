"""One array on disk: its metadata file and its chunks of rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.chunk import chunk_name, encode_chunk
from depthscope.store.codec import Codec
from depthscope.store.files import replace_file, replace_json
from depthscope.store.metadata import array_metadata
from depthscope.store.schema import Field

Array = npt.NDArray[Any]
_CHUNK_BYTES = 2**20
_SCALAR_CHUNKS = 16
FIRST_ROW = "first_row"
"""Attribute of an array that came later than its stream: chunks before this row are not there."""


def chunk_rows(field: Field, stream_rows: int) -> int:
    """Return the rows in a chunk of this array: about 1 MiB, a divisor of the stream's, or 16 times it.

    A scalar's chunk spans 16 chunks of the stream, or a million steps of 20 scalars alone would take 20,000
    files.
    """
    if field.nbytes <= 8:
        return stream_rows * _SCALAR_CHUNKS
    rows = stream_rows
    while rows % 2 == 0 and rows * field.nbytes > _CHUNK_BYTES:
        rows //= 2
    return rows


class Column:
    """Writes one array's rows into chunks; a chunk that is not full yet is padded and replaced later.

    Rewriting a chunk is safe while others read: an older commit sees a prefix of it.
    """

    def __init__(
        self,
        folder: Path,
        field: Field,
        *,
        rows: int,
        attributes: Mapping[str, Any],
        nested: bool = True,
        first_row: int = 0,
        over: str = "step",
        codec: Codec,
    ) -> None:
        """`rows` are those of a chunk; `nested`: what `write` gets begins a chunk and ends anywhere.

        `over` names the dim that grows.
        """
        self.field, self.folder = field, folder
        self._rows, self._nested, self._codec = rows, nested, codec
        self.metadata = array_metadata(
            shape=(0, *field.shape),
            chunk_shape=(self._rows, *field.shape),
            dtype=field.dtype,
            dims=(over, *field.dims),
            attributes={**attributes, FIRST_ROW: first_row} if first_row else attributes,
            codec=codec,
        )
        self._fill = np.nan if field.dtype != "i8" else 0
        self._tail: Array | None = None
        self._tail_chunk = -1
        self._length: tuple[int, str] | None = None
        self.committed = 0
        """Rows that the last commit knows; whole chunks below are not written again."""
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, start: int, rows: Array, *, fsync: bool) -> None:
        """Write the rows from number `start` on, which begins a chunk of the stream (of the array: a level).

        May be called again with the same rows after a failure.
        """
        if self._nested:
            for offset in range(0, len(rows), self._rows):
                block = rows[offset : offset + self._rows]
                if start + offset + len(block) > self.committed:
                    self._put((start + offset) // self._rows, self._padded(block), fsync)
            return
        chunk, offset = divmod(start, self._rows)
        if chunk < self._tail_chunk:
            return
        if chunk > self._tail_chunk:
            self.finish(fsync=fsync)
            self._tail = self._padded(rows[:0])
            self._tail_chunk = chunk
        assert self._tail is not None
        self._tail[offset : offset + len(rows)] = rows

    def finish(self, *, fsync: bool) -> None:
        """Write the chunk that is still growing."""
        if self._tail is not None:
            self._put(self._tail_chunk, self._tail, fsync)

    def set_length(self, rows: int) -> str:
        """Write the array's own metadata with `rows` rows, and return its text for the commit.

        Without fsync, which would double a flush's time on a slow disk: the commit holds the same text.
        """
        if self._length is None or self._length[0] != rows:
            described = {**self.metadata, "shape": [rows, *self.field.shape]}
            self._length = rows, replace_json(self.folder / "zarr.json", described, fsync=False)
        return self._length[1]

    def _padded(self, rows: Array) -> Array:
        if len(rows) == self._rows:
            return rows
        whole = np.full((self._rows, *self.field.shape), self._fill, rows.dtype)
        whole[: len(rows)] = rows
        return whole

    def _put(self, chunk: int, values: Array, fsync: bool) -> None:
        replace_file(
            self.folder / chunk_name(chunk, self.field.shape), encode_chunk(values, self._codec), fsync=fsync
        )
