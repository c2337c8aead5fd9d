"""Committed rows of an array, read from its chunks. Nothing that a store claims is believed unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from depthscope.store.chunk import LARGEST_CHUNK, LARGEST_RATIO, chunk_name, decode_chunk
from depthscope.store.column import FIRST_ROW
from depthscope.store.metadata import DTYPES

Array = npt.NDArray[Any]
_FREE_BYTES = 64 * 2**20
_LARGEST_GAP = 2**30


CODECS = ["bytes", "blosc", "crc32c"]
"""Runs of the first days lack the checksum."""


@dataclass(frozen=True, kw_only=True)
class StoredArray:
    """An array of rows as its metadata describes it."""

    name: str
    folder: Path
    dims: tuple[str, ...]
    """Without ``step``."""
    shape: tuple[int, ...]
    """Of one row."""
    chunk_rows: int
    rows: int
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    first_row: int
    checksum: bool = True
    others: tuple[Path, ...] = ()
    """Folders of the array in later attempts: a chunk that `folder` lacks is the same in the first that has it."""
    own_from: int | None = None
    """Of an earlier attempt: the first chunk that no other folder has as it was."""


def describe_array(folder: Path, metadata: Mapping[str, Any], *, over: str = "step") -> StoredArray:
    """Parse the metadata of an array that grows `over` a dim; ValueError when it is not one that format 1 writes."""
    try:
        rows, *shape = metadata["shape"]
        chunk_rows, *chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        dims = metadata["dimension_names"]
        kind = metadata["data_type"]
        codecs = [codec["name"] for codec in metadata["codecs"]]
        attributes = dict(metadata["attributes"])
        sizes = [rows, chunk_rows, *shape]
        whole = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes)
        fits = (
            whole
            and chunk_rows > 0
            and all(size > 0 for size in shape)
            and chunk == shape
            and len(dims) == len(shape) + 1
            and dims[0] == over
            and kind in DTYPES
            and codecs in (["bytes", "blosc"], CODECS)
            and chunk_rows * prod(shape) * DTYPES[kind].itemsize <= LARGEST_CHUNK
        )
        if not fits:
            raise ValueError("sizes, dims, type or codecs are not those of format 1")
        first_row = attributes.pop(FIRST_ROW, 0)
        return StoredArray(
            name=unquote(folder.name),
            folder=folder,
            dims=tuple(map(str, dims[1:])),
            shape=tuple(shape),
            chunk_rows=chunk_rows,
            dtype=DTYPES[kind],
            rows=rows,
            attributes=attributes,
            first_row=first_row if isinstance(first_row, int) else 0,
            checksum=codecs == CODECS,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"the metadata of {folder.name} cannot be read ({type(error).__name__}: {error})"
        ) from None


def read_rows(array: StoredArray, start: int, stop: int) -> Array:
    """Return rows [start, stop), [n, ...]; ValueError or OSError when a chunk is missing or damaged.

    Chunks before `first_row` do not exist and are NaN: the array came later than its stream.
    """
    if stop <= start:
        return np.empty((0, *array.shape), array.dtype)
    size, row_bytes = array.chunk_rows, prod(array.shape) * array.dtype.itemsize
    begin = min(stop, max(start, array.first_row // size * size))
    if (begin - start) * row_bytes > _LARGEST_GAP:
        raise ValueError(f"{array.name} claims to lack its first {array.first_row} rows")
    paths, present = [], 0
    for chunk in range(begin // size, -(-stop // size)) if begin < stop else ():
        name = chunk_name(chunk, array.shape)
        own = array.own_from is not None and chunk >= array.own_from
        for folder in (array.folder, *(() if own else array.others)):
            try:
                present += (folder / name).stat().st_size
            except FileNotFoundError:
                continue
            paths.append((chunk, folder / name))
            break
        else:
            raise ValueError(f"{array.name} lacks its rows from {chunk * size} on ({name})")
    if (stop - begin) * row_bytes > LARGEST_RATIO * present + _FREE_BYTES:
        raise ValueError(f"{array.name} claims {stop - begin} rows, more than its files can hold")
    values = np.full((stop - start, *array.shape), np.nan if array.dtype.kind == "f" else 0, array.dtype)
    for chunk, path in paths:
        try:
            block = decode_chunk(
                path.read_bytes(), (size, *array.shape), array.dtype, checksum=array.checksum
            )
        except ValueError as error:
            place = "/".join(path.parts[-3:])
            raise ValueError(f"{array.name} cannot be read from its file {place}: {error}") from None
        low, high = max(start, chunk * size), min(stop, (chunk + 1) * size)
        values[low - start : high - start] = block[low - chunk * size : high - chunk * size]
    return values
