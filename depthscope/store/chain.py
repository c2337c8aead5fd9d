"""One array's way up the pyramid: rows become bins, and bins become larger bins, as they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.bins import merge_bins, reduce_rows
from depthscope.store.column import Column
from depthscope.store.level import LEVELS

Array = npt.NDArray[Any]
Reduce = Callable[[Array, int], Array]
TOP = max(LEVELS.values())
"""Rows in a bin of the coarsest level."""
_FACTORS = [high // low for low, high in pairwise((1, *LEVELS.values()))]


class Level:
    """The bins of one array at one level: those of the chunk that still grows, and what makes no bin yet."""

    def __init__(
        self, *, size: int, factor: int, chunk: int, reduce: Reduce, below: Array, bins: Array
    ) -> None:
        """`below` and `bins` are empty arrays like the rows, or bins, that come in and the bins made of them."""
        self.size, self._factor, self.chunk, self._reduce = size, factor, chunk, reduce
        self._pending, self._bins = below, bins
        self.start = 0
        """The number of the first bin in memory; it begins a chunk."""

    @property
    def count(self) -> int:
        return self.start + len(self._bins)

    @property
    def bins(self) -> Array:
        return self._bins

    def take(self, values: Array) -> Array:
        """Take in what follows; return the bins that it completes."""
        if len(self._pending):
            values = np.concatenate([self._pending, values])
        whole = len(values) // self._factor * self._factor
        made = self._reduce(values[:whole], self._factor)
        # A copy, or a few pending rows would keep the buffer of a thousand in memory.
        self._pending = values[whole:].copy()
        if len(made):
            self._bins = np.concatenate([self._bins, made])
        return made

    def restart(self, bins: Array, start: int) -> None:
        """Go on after `bins`, of which the first has number `start`, with nothing pending."""
        self._pending, self._bins, self.start = self._pending[:0], bins, start

    def write(self, column: Column, *, fsync: bool) -> None:
        column.write(self.start, self._bins, fsync=fsync)

    def committed(self, column: Column) -> None:
        """Forget the bins of chunks that are full."""
        column.committed = self.count
        done = len(self._bins) // self.chunk * self.chunk
        if done:
            self._bins = self._bins[done:].copy()
            self.start += done


class Chain:
    """All levels of one array. `rows` have been taken in."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self.levels, self.rows = levels, 0

    def take(self, values: Array) -> None:
        """Take in the rows [n, ...] that follow."""
        self.rows += len(values)
        for level in self.levels:
            values = level.take(values)

    def restart(self, row: int, bins: Sequence[tuple[Array, int]]) -> None:
        """Go on from `row`, a multiple of the largest bin, after the bins of each level and their first number."""
        self.rows = row
        for level, (kept, start) in zip(self.levels, bins, strict=True):
            level.restart(kept, start)


def base_row(row: int) -> int:
    """Return the last row, at or before `row`, at which a bin begins at every level."""
    return row // TOP * TOP


def stats_chain(shape: tuple[int, ...], dtype: str, bin_dtype: str, chunk: int) -> Chain:
    """Return a chain of mean, min, max and the count of non-finite values for rows of this shape."""
    levels: list[Level] = []
    below = np.empty((0, *shape), dtype)
    bins = reduce_rows(below, 1).astype(bin_dtype)
    for size, factor in zip(LEVELS.values(), _FACTORS, strict=True):
        reduce = _merging(size // factor) if levels else reduce_rows
        levels.append(Level(size=size, factor=factor, chunk=chunk, reduce=reduce, below=below, bins=bins))
        below = bins
    return Chain(levels)


def edge_chain(chunk: int, *, last: bool) -> Chain:
    """Return a chain of the first, or the last, step of each bin."""

    def edge(values: Array, factor: int) -> Array:
        return values[factor - 1 :: factor] if last else values[::factor]

    none = np.empty(0, "i8")
    return Chain(
        [
            Level(size=size, factor=factor, chunk=chunk, reduce=edge, below=none, bins=none)
            for size, factor in zip(LEVELS.values(), _FACTORS, strict=True)
        ]
    )


def _merging(rows: int) -> Reduce:
    return lambda bins, factor: merge_bins(bins, np.full(len(bins), rows), factor)[0]
