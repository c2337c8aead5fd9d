"""A range of rows as the columns of a screen, from the coarsest level that still has enough of them.

A column spans whole bins of the level it is read from, so what it says of its rows is exact: nothing is
interpolated. That costs columns, up to half of those asked for. The ends that a level does not cover (rows that
are no whole bin, or only in the log) come from finer levels, and at last from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.bins import bin_rows, merge_bins, reduce_rows

Array = npt.NDArray[Any]
ReadRows = Callable[[int, int], Array]
"""Rows [start, stop), [n, ...]."""
ReadBins = Callable[[int, int], Array]
"""Bins [start, stop), [n, 4, ...]."""
Bins = tuple[Array, Array]
"""Bins [n, 4, ...] and the rows [n] in each."""
_BLOCK_BYTES = 64 * 2**20


class Screen:
    """Reads one array for a screen. `levels` holds, by the rows of a bin, how many bins there are and their reader."""

    def __init__(self, rows: ReadRows, levels: Mapping[int, tuple[int, ReadBins]]) -> None:
        self._rows, self._levels = rows, levels

    def read(self, low: int, high: int, columns: int) -> tuple[Array, Array]:
        """Return the rows [low, high) as at most `columns` bins [n, 4, ...], and where each begins, [n + 1].

        The level is the coarsest whose bins would be at least half as many as the columns, whether it has come
        that far yet or not, so that a live run shows the same as a finished one; bins are of
        ceil(rows / columns) rows where even the finest has too few.
        """
        size = bin_rows(high - low, columns)
        sizes = sorted((level for level in self._levels if level <= 2 * size), reverse=True)
        if not sizes:
            bins, _ = self._reduced(low, high, size)
            return bins, np.append(np.arange(low, max(high, low + 1), size), high)[: len(bins) + 1]
        origin = low // sizes[0] * sizes[0]
        factor = bin_rows(bin_rows(high - origin, columns), sizes[0])
        size = factor * sizes[0]
        bins, rows = self._binned(low, high, sizes)
        bins, _ = merge_bins(bins, rows, factor)
        return bins, np.r_[low, np.arange(origin + size, high, size), high]

    def _binned(self, low: int, high: int, sizes: list[int]) -> Bins:
        """Return [low, high) in bins that begin at multiples of the first size, the first and the last one cut."""
        size, *finer = sizes
        count, read = self._levels[size]
        first = -(-low // size)
        last = max(first, min(high // size, count))
        parts = []
        if low < first * size:
            parts.append(self._cut(low, min(first * size, high), size, finer))
        if first < last:
            parts.append((read(first, last), np.full(last - first, size)))
        if last * size < high:
            parts.append(self._cut(last * size, high, size, finer))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([bins for bins, _ in parts]), np.concatenate([rows for _, rows in parts])

    def _cut(self, low: int, high: int, size: int, finer: list[int]) -> Bins:
        """Return bins of `size` rows, as finer levels or the rows give them; one alone where `low` is inside it."""
        if not finer:
            return self._reduced(low, high, size)
        bins, rows = self._binned(low, high, finer)
        return merge_bins(bins, rows, size // finer[0])

    def _reduced(self, low: int, high: int, size: int) -> Bins:
        """Return bins of `size` rows counted from `low`, from the rows, without all of them in memory at once."""
        none = reduce_rows(self._rows(low, low), size)
        block = max(1, _BLOCK_BYTES // (prod(none.shape[2:]) * 8) // size) * size
        parts = [
            reduce_rows(self._rows(begin, min(begin + block, high)), size)
            for begin in range(low, high, block)
        ]
        starts = np.arange(low, high, size)
        return np.concatenate([none, *parts]), np.minimum(high - starts, size)
