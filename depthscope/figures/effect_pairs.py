"""The points of a run's scatter of effects: its pairs, where routing and effect disagree, and their rank correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from depthscope.analysis import disagreements, rank_correlation
from depthscope.figures.shown import FloatArray


@dataclass(frozen=True, kw_only=True)
class EffectPairs:
    """The pairs of one run, all arrays [pairs], in the order of rows and columns."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    width: FloatArray
    """Weight or contribution."""
    effect: FloatArray
    interval: FloatArray
    """Half width of the 95 % interval; NaN for one batch."""
    free: NDArray[np.bool_]
    """Wide, and no cost is seen: its interval holds 0."""
    costly: NDArray[np.bool_]
    """Narrow, and the cut costs much."""
    with_weight: float
    """Rank correlation of the effect with the weight; NaN below three pairs."""
    with_contribution: float

    @property
    def kinds(self) -> list[str]:
        """For each pair ``free``, ``costly`` or ``plain``."""
        return [
            "free" if free else "costly" if costly else "plain"
            for free, costly in zip(self.free.tolist(), self.costly.tolist(), strict=True)
        ]


def effect_pairs(array: xr.DataArray, against: str) -> EffectPairs:
    """Return the points of one array of `effects_data`: its cells that are ``shown``."""
    rows, columns = np.nonzero(array["shown"].values)

    def at(name: str) -> FloatArray:
        return np.asarray(array[name].values[rows, columns], dtype=np.float64)

    effect, interval = np.asarray(array.values[rows, columns], dtype=np.float64), at("interval")
    free, costly = disagreements(at(against), effect, interval)
    return EffectPairs(
        rows=rows,
        columns=columns,
        width=at(against),
        effect=effect,
        interval=interval,
        free=free,
        costly=costly,
        with_weight=rank_correlation(at("weight"), effect),
        with_contribution=rank_correlation(at("contribution"), effect),
    )


def noise_of(pairs: list[EffectPairs]) -> float:
    """Return the median half width of all intervals: within it an effect axis is linear, beyond it logarithmic.

    Without intervals, a hundredth of the largest effect.
    """
    halves = np.concatenate([each.interval for each in pairs]) if pairs else np.empty(0)
    halves = halves[np.isfinite(halves) & (halves > 0)]
    if halves.size:
        return float(np.median(halves))
    sizes = np.abs(np.concatenate([each.effect for each in pairs])) if pairs else np.empty(0)
    return float(sizes.max()) / 100 if sizes.size and sizes.max() > 0 else 1.0
