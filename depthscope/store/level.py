"""The levels of the pyramid: how many rows a bin has, and where its arrays lie in the store."""

from __future__ import annotations

from depthscope.store.bins import STATS, bin_dtype
from depthscope.store.schema import Field

PYRAMID = "pyramid"
LEVELS = {"L1": 32, "L2": 256, "L3": 2048}
"""Rows in a bin. Each level's bins are whole bins of the level before."""
START, END = "step_start", "step_end"
_CHUNK_BINS = 256
_SMALL_BINS = 4096
_SMALL_BYTES = 64
_CHUNK_BYTES = 2**20


def level_path(stream: str, level: str, key: str = "") -> str:
    """Return the path of a level's group, or of one of its arrays."""
    return "/".join(part for part in (PYRAMID, stream, level, key) if part)


def bins_field(name: str, row: Field) -> Field:
    """Return how the bins of an array are laid out: dims (stat, ...)."""
    return Field(
        name=name,
        dims=("stat", *row.dims),
        shape=(len(STATS), *row.shape),
        dtype=bin_dtype(row.dtype),
        offset=0,
    )


def chunk_bins(field: Field) -> int:
    """Return the bins in a chunk: about 1 MiB, 256 at most; 4096 of a scalar, or there would be many files."""
    if field.nbytes <= _SMALL_BYTES:
        return _SMALL_BINS
    bins = _CHUNK_BINS
    while bins > 1 and bins * field.nbytes > _CHUNK_BYTES:
        bins //= 2
    return bins
