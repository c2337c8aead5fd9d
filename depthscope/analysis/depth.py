"""Where blocks begin and end along the depth axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from depthscope.analysis.fit import IntArray


def ends(groups: Sequence[int]) -> IntArray:
    """Return the positions (from 0) of the last sublayer of each run of equal numbers in `groups` [L].

    For `transformer_block` these are the states after each transformer block.
    """
    numbers = np.asarray(groups)
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    return np.append(np.flatnonzero(numbers[1:] != numbers[:-1]), numbers.size - 1).astype(np.int64)


def starts(groups: Sequence[int]) -> IntArray:
    """Return the positions (from 0) of the first sublayer of each run of equal numbers in `groups` [L]."""
    last = ends(groups)
    return np.concatenate(([0], last[:-1] + 1)).astype(np.int64) if last.size else last


def positions(groups: Sequence[int]) -> IntArray:
    """Return for each sublayer its position (from 0) inside its run of equal numbers in `groups` [L]."""
    out = np.arange(len(groups))
    for first, last in zip(starts(groups), ends(groups), strict=True):
        out[first : last + 1] -= first
    return out.astype(np.int64)
