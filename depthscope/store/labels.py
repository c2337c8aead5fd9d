"""Coordinate arrays: labels along a dim, written once with the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.arrays import CODECS
from depthscope.store.chunk import LARGEST_RATIO, decode_chunk, decode_texts, encode_chunk, encode_texts
from depthscope.store.codec import Codec
from depthscope.store.files import replace_file, replace_json
from depthscope.store.metadata import array_metadata, text_metadata
from depthscope.store.specification import Coordinate

_LARGEST_FILE = 16 * 2**20


def write_labels(folder: Path, coordinate: Coordinate, *, fsync: bool) -> str:
    """Write a coordinate into its folder and return the text of its metadata; numbers become int64, names strings."""
    values, dim = list(coordinate.values), coordinate.dim
    if all(isinstance(value, str) for value in values):
        described = text_metadata(length=len(values), dim=dim, attributes={})
        content = encode_texts([str(value) for value in values])
    else:
        numbers = np.array([int(value) for value in values], "i8")
        shape = (len(values),)
        described = array_metadata(
            shape=shape, chunk_shape=shape, dtype="i8", dims=(dim,), attributes={}, codec=Codec()
        )
        content = encode_chunk(numbers, Codec())
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "c.0", content, fsync=fsync)
    return replace_json(folder / "zarr.json", described, fsync=fsync)


def is_labels(metadata: dict[str, Any]) -> bool:
    """Tell coordinates, one-dimensional and never growing, from recorded arrays."""
    names = metadata.get("dimension_names")
    return metadata.get("node_type") == "array" and isinstance(names, list) and names[:1] != ["step"]


def read_labels(folder: Path, metadata: dict[str, Any]) -> tuple[str, npt.NDArray[Any]]:
    """Return (dim, values) of a coordinate; ValueError or OSError when it cannot be read."""
    try:
        (dim,), (length,) = metadata["dimension_names"], metadata["shape"]
        kind = metadata["data_type"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder.name} is not a row of labels") from None
    path = folder / "c.0"
    size = path.stat().st_size
    longest = size // 4 if kind == "string" else size * LARGEST_RATIO // 8
    if not isinstance(length, int) or not 0 < length <= longest or size > _LARGEST_FILE:
        raise ValueError(f"{folder.name} claims {length!r} labels in a file of {size} bytes")
    content = path.read_bytes()
    if kind == "string":
        return str(dim), np.array(decode_texts(content, length))
    if kind != "int64":
        raise ValueError(f"{folder.name} has labels of type {kind!r}")
    checksum = len(metadata.get("codecs", [])) == len(CODECS)
    return str(dim), decode_chunk(content, (length,), np.dtype("<i8"), checksum=checksum)
