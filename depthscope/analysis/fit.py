"""Least-squares slopes and the spread of a few numbers, with NaN where they are not defined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def slope(x: FloatArray, y: FloatArray) -> float:
    """Return the least-squares slope of `y` on `x` over the entries where both are finite.

    NaN with fewer than two different `x`.
    """
    seen = np.isfinite(x) & np.isfinite(y)
    x, y = x[seen], y[seen]
    if x.size < 2 or np.ptp(x) == 0:
        return float("nan")
    centred = x - x.mean()
    return float(centred @ (y - y.mean()) / (centred @ centred))


def log_positive(values: FloatArray) -> FloatArray:
    """Return the natural log, NaN where a value is not a positive number."""
    good = np.isfinite(values) & (values > 0)
    return np.log(np.where(good, values, np.nan))


def largest_over_smallest(values: FloatArray) -> float:
    """Return max / min of positive values; NaN where one is not a positive number or none is given."""
    if values.size == 0 or not np.all(np.isfinite(values)) or values.min() <= 0:
        return float("nan")
    return float(values.max() / values.min())


def variation(values: FloatArray) -> float:
    """Return the population coefficient of variation, std / mean; NaN as for `largest_over_smallest`."""
    if np.isnan(largest_over_smallest(values)):
        return float("nan")
    return float(values.std() / values.mean())


def geometric_mean(values: FloatArray) -> float:
    """Return the geometric mean of positive values; NaN where one is not a positive number or none is given."""
    if np.isnan(largest_over_smallest(values)):
        return float("nan")
    return float(np.exp(np.log(values).mean()))


def defined(value: float) -> float | None:
    """Return the value, or None where it is not a finite number: what a finding stores."""
    return float(value) if np.isfinite(value) else None
