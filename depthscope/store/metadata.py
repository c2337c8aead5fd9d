"""The zarr v3 metadata of a run's arrays and groups, as the dicts that zarr itself would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from depthscope.store.codec import Codec

_ZARR_NAMES = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i8": "int64",
}
DTYPES = {name: np.dtype(short).newbyteorder("<") for short, name in _ZARR_NAMES.items()}
"""The numpy dtype of each zarr data type that a run of format 1 can hold, strings aside."""


def array_metadata(
    *,
    shape: Sequence[int],
    chunk_shape: Sequence[int],
    dtype: str,
    dims: Sequence[str],
    attributes: Mapping[str, Any],
    codec: Codec,
) -> dict[str, Any]:
    """Describe a numeric array: little endian, blosc behind a byte shuffle, then a checksum.

    The separator "." keeps a chunk in the array's own folder, which halves the inodes. fill_value has to be
    said: zarr's default is 0.
    """
    kind = np.dtype(dtype)
    return {
        "shape": list(shape),
        "data_type": _ZARR_NAMES[dtype],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": "NaN" if kind.kind == "f" else 0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {
                "name": "blosc",
                "configuration": {
                    "typesize": kind.itemsize,
                    "cname": codec.name,
                    "clevel": codec.level,
                    "shuffle": "shuffle",
                    "blocksize": 0,
                },
            },
            *([{"name": "crc32c"}] if codec.checksum else []),
        ],
        "attributes": dict(attributes),
        "dimension_names": list(dims),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def text_metadata(*, length: int, dim: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a one-dimensional array of strings in one chunk."""
    described = array_metadata(
        shape=(length,), chunk_shape=(length,), dtype="f4", dims=(dim,), attributes=attributes, codec=Codec()
    )
    return {
        **described,
        "data_type": "string",
        "fill_value": "",
        "codecs": [{"name": "vlen-utf8", "configuration": {}}],
    }


def group_metadata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}
