"""Ranges of axes and colour scales: robust, shared over runs, and honest about what they clip."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

Range = Literal["shared", "full", "own"]
RANGES: tuple[Range, ...] = ("shared", "full", "own")
_ROBUST = (1.0, 99.0)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The two ends of a scale in shown units, and whether values lie beyond them."""

    low: float
    high: float
    clips_low: bool = False
    clips_high: bool = False


def limits_of(
    arrays: Iterable[xr.DataArray], *, robust: bool = True, log: bool = False, symmetric: bool = False
) -> Limits | None:
    """Return the common limits of `arrays`, or None when none of their values can be drawn.

    `robust` leaves out the lowest and the highest 1 % of the values; `log` looks at positive values only;
    `symmetric` puts 0 in the middle.
    """
    parts = [np.asarray(array.values, dtype=np.float64).ravel() for array in arrays]
    values = np.concatenate(parts) if parts else np.empty(0)
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    if values.size == 0:
        return None
    if symmetric:
        size = np.abs(values)
        reach = float(np.percentile(size, _ROBUST[1])) if robust else float(size.max())
        reach = reach or float(size.max()) or 1.0
        return Limits(
            low=-reach,
            high=reach,
            clips_low=bool(values.min() < -reach),
            clips_high=bool(values.max() > reach),
        )
    low, high = (float(end) for end in np.percentile(values, _ROBUST if robust else (0, 100)))
    if low == high == 0:
        low, high = 0.0, 1.0
    if low == high:
        low, high = (
            (low / 1.5, high * 1.5) if low > 0 else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)
        )
    return Limits(
        low=low, high=high, clips_low=bool(values.min() < low), clips_high=bool(values.max() > high)
    )


def shared_limits(
    runs: Sequence[npt.NDArray[np.float64]],
    *,
    signed: bool,
    percentile: float = _ROBUST[1],
    most: float = math.inf,
) -> Limits | None:
    """Return the common range of shares, one array a run: from 0, or symmetric when `signed`; rounded up to 0.05.

    It holds the sizes up to `percentile`, and ends at `most`, whatever lies beyond.
    Robust for each run by itself: the many small shares of a deep run do not clip those of a shallow one.
    """
    finite = [values[np.isfinite(values)] for values in runs]
    values = np.concatenate(finite) if finite else np.empty(0)
    if values.size == 0:
        return None
    reach = max(float(np.percentile(np.abs(run), percentile)) for run in finite if run.size)
    unit = 0.05 if reach > 0.05 else 0.005
    high = min(float(np.ceil(reach / unit - 1e-9) * unit) or unit, most)
    low = -high if signed else 0.0
    return Limits(
        low=low, high=high, clips_low=bool(values.min() < low), clips_high=bool(values.max() > high)
    )


def has_logarithm(arrays: Iterable[xr.DataArray]) -> bool:
    """Return whether any value can be drawn on a log scale: all of a count may be zero."""
    return limits_of(arrays, log=True) is not None


def axis_range(
    limits: Limits | None, current: Iterable[xr.DataArray], *, log: bool, signed: bool
) -> list[float]:
    """Return the range of a value axis, in decades when `log`, that holds `limits` and every current value.

    The limits come from the whole of training, so the axis stands still while the step moves.
    """
    ends = [] if limits is None else [limits.low, limits.high]
    for array in current:
        values = np.asarray(array.values, dtype=np.float64)
        values = values[np.isfinite(values) & ((values > 0) | (not log))]
        ends += [float(values.min()), float(values.max())] if values.size else []
    if not ends:
        return [-1.0, 1.0] if log or signed else [0.0, 1.0]
    low, high = min(ends), max(ends)
    if log:
        low, high = math.log10(low), math.log10(high)
    elif not signed:
        low = min(low, 0.0)
    room = max(0.06 * (high - low), 1e-6 * max(abs(low), abs(high))) or 1.0
    return [low if low == 0 and not log and not signed else low - room, high + room]
