"""A mean and how far it may be off."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

# Two-sided 95 % quantiles of Student's t by degrees of freedom; between them linear in 1 / degrees.
_T95 = {
    1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 7: 2.3646, 8: 2.3060, 9: 2.2622, 10: 2.2281,
    11: 2.2010, 12: 2.1788, 13: 2.1604, 14: 2.1448, 15: 2.1314, 16: 2.1199, 18: 2.1009, 20: 2.0860, 24: 2.0639,
    30: 2.0423, 40: 2.0211, 60: 2.0003, 120: 1.9799,
}  # fmt: skip
_NORMAL95 = 1.9600
FloatArray = npt.NDArray[np.float64]


def t95(degrees: int) -> float:
    """Return the factor of a standard error that makes a 95 % interval of a mean of ``degrees + 1`` values."""
    if degrees < 1:
        return float("nan")
    known = [*((1 / each, factor) for each, factor in _T95.items()), (0.0, _NORMAL95)]
    place = 1 / degrees
    for (left, above), (right, below) in pairwise(known):
        if right <= place <= left:
            return below + (above - below) * (place - right) / (left - right)
    raise AssertionError("1 / degrees lies between 0 and 1")


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the last axis and the half width of its 95 % t interval, NaN for a single value.

    NaN values are left out; a mean of none is NaN.
    """
    count = np.isfinite(values).sum(-1)
    total = np.where(np.isfinite(values), values, 0.0)
    mean = np.divide(total.sum(-1), count, out=np.full(count.shape, np.nan), where=count > 0)
    squares = np.where(np.isfinite(values), (values - mean[..., None]) ** 2, 0.0).sum(-1)
    several = count > 1
    deviation = np.sqrt(np.divide(squares, count - 1, out=np.full(count.shape, np.nan), where=several))
    factor = np.vectorize(t95, otypes=[np.float64])(count - 1)
    return mean, factor * deviation / np.sqrt(np.maximum(count, 1))
