"""Rows reduced to bins: mean, smallest and largest value, and how many values are not finite.

The mean is over finite values only. Smallest and largest leave NaN out and keep infinities, so that an overflow
shows however many rows share a bin. A bin without any finite value has the mean NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
STATS = ("mean", "min", "max", "nonfinite")
MEAN, MIN, MAX, NONFINITE = range(len(STATS))


def bin_rows(rows: int, columns: int) -> int:
    """Return the rows in a bin such that there are at most `columns` bins."""
    return max(1, -(-rows // columns))


def bin_dtype(dtype: np.dtype[Any] | str) -> str:
    """Return the type of the bins of an array: counts and means of f2 rows need f4."""
    return "f8" if np.dtype(dtype) == np.float64 else "f4"


def empty_bins(count: int, shape: tuple[int, ...], dtype: str, rows: int) -> Array:
    """Return bins [count, 4, *shape] of `rows` rows each that all lack the array."""
    bins = np.full((count, len(STATS), *shape), np.nan, dtype)
    bins[:, NONFINITE] = rows
    return bins


def reduce_rows(values: Array, size: int) -> Array:
    """Reduce rows [n, ...] to bins [ceil(n / size), 4, ...], the last one of fewer rows. Means are taken in f8."""
    whole = len(values) // size
    out = np.empty((-(-len(values) // size), len(STATS), *values.shape[1:]), bin_dtype(values.dtype))
    if whole:
        _reduce(values[: whole * size].reshape(whole, size, *values.shape[1:]), out[:whole])
    if len(out) > whole:
        _reduce(values[None, whole * size :], out[whole:])
    return out


def merge_bins(bins: Array, rows: Array, factor: int) -> tuple[Array, Array]:
    """Join each `factor` bins [n, 4, ...] of `rows` [n] rows into one, the last one of fewer; return both anew."""
    whole = len(bins) // factor
    out = np.empty((-(-len(bins) // factor), *bins.shape[1:]), bins.dtype)
    if whole:
        block = bins[: whole * factor].reshape(whole, factor, *bins.shape[1:])
        _merge(block, rows[: whole * factor].reshape(whole, factor), out[:whole])
    if len(out) > whole:
        _merge(bins[None, whole * factor :], rows[None, whole * factor :], out[whole:])
    return out, np.add.reduceat(rows, np.arange(0, len(rows), factor)) if len(rows) else rows


def _reduce(block: Array, out: Array) -> None:
    """Reduce [bins, size, ...] over its second axis."""
    with np.errstate(all="ignore"):
        total = block.sum(axis=1, dtype="f8")
        out[:, MIN] = np.fmin.reduce(block, axis=1)
        out[:, MAX] = np.fmax.reduce(block, axis=1)
        if np.isfinite(total).all():
            out[:, MEAN] = total / block.shape[1]
            out[:, NONFINITE] = 0
            return
        finite = np.isfinite(block)
        count = finite.sum(axis=1)
        out[:, MEAN] = np.where(finite, block, 0).sum(axis=1, dtype="f8") / count
        out[:, NONFINITE] = block.shape[1] - count


def _merge(block: Array, rows: Array, out: Array) -> None:
    """Merge [bins, factor, 4, ...] over its second axis, weighted by finite values."""
    missing = block[:, :, NONFINITE].sum(axis=1)
    out[:, NONFINITE] = missing
    out[:, MIN] = np.fmin.reduce(block[:, :, MIN], axis=1)
    out[:, MAX] = np.fmax.reduce(block[:, :, MAX], axis=1)
    if not missing.any() and (rows == rows.flat[0]).all():
        out[:, MEAN] = block[:, :, MEAN].sum(axis=1, dtype="f8") / block.shape[1]
        return
    weights = rows.reshape(*rows.shape, *(1 for _ in block.shape[3:])) - block[:, :, NONFINITE].astype("f8")
    with np.errstate(all="ignore"):
        total = (np.where(weights > 0, block[:, :, MEAN], 0) * weights).sum(axis=1)
        out[:, MEAN] = total / weights.sum(axis=1)
