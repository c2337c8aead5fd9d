"""One array on disk: its metadata file and its chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def stream_chunk_rows(step_metadata: Mapping[str, Any]) -> int:
    """Return the rows in a chunk of a stream, from the metadata of its ``step`` array."""
    rows = int(step_metadata["chunk_grid"]["configuration"]["chunk_shape"][0])
    if rows < _SCALAR_CHUNKS or rows % _SCALAR_CHUNKS:
        raise ValueError(f"step has chunks of {rows} rows, not a multiple of {_SCALAR_CHUNKS}")
    return rows // _SCALAR_CHUNKS


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
        # Not its parents: a run that was deleted does not come back in part.
        folder.mkdir(exist_ok=True)

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

    def continue_from(self, rows: int, read: Callable[[int, int], Array]) -> None:
        """Go on behind the first `rows` rows on disk, of which `read(start, stop)` returns some."""
        self.committed = rows
        chunk, count = divmod(rows, self._rows)
        self._tail, self._tail_chunk = None, -1
        if count and not self._nested:
            self._tail, self._tail_chunk = self._padded(read(rows - count, rows)), chunk

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
        attributes = self.metadata["attributes"]
        if (chunk + 1) * self._rows <= attributes.get(FIRST_ROW, 0):
            # The run went back to before the array's first row.
            attributes[FIRST_ROW] = chunk * self._rows
            self._length = None
        name = chunk_name(chunk, self.field.shape)
        replace_file(self.folder / name, encode_chunk(values, self._codec), fsync=fsync)
