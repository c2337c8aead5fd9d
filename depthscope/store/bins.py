"""Rows reduced to bins: mean, smallest and largest value, NaN left out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
STATS = ("mean", "min", "max")


def bin_rows(rows: int, columns: int) -> int:
    """Return the rows in a bin such that there are at most `columns` bins."""
    return max(1, -(-rows // columns))


def reduce_bins(values: Array, size: int) -> Array:
    """Reduce [n, ...] to [bins, 3, ...] over bins of `size` rows, the last one shorter.

    A bin without any value is NaN. Means are taken in f8.
    """
    count = -(-len(values) // size)
    kind = "f8" if values.dtype == np.float64 else "f4"
    out = np.empty((count, len(STATS), *values.shape[1:]), kind)
    whole = len(values) // size
    blocks = values[: whole * size].reshape(whole, size, *values.shape[1:])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        for target, block in ((out[:whole], blocks), (out[whole:], values[None, whole * size :])):
            if len(target):
                target[:, 0] = np.nanmean(block, axis=1, dtype="f8")
                target[:, 1] = np.nanmin(block, axis=1)
                target[:, 2] = np.nanmax(block, axis=1)
    return out
