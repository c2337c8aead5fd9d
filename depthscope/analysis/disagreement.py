"""Where routing and effect disagree: paths that are wide and show no cost, and paths that are narrow and cost much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from depthscope.analysis.fit import FloatArray

TENTH = 0.1
FEWEST_PAIRS = 10
RULE_IN_WORDS = (
    "Wide, no cost seen: among the tenth of its run's pairs with the largest values, not among the tenth with the "
    "largest effects, and 0 lies within the 95 % interval of its effect: with few batches that may be want of data. "
    "Narrow, costs much: below the median, among the tenth with the largest effects, and the "
    "interval lies above 0."
)


def disagreements(
    width: FloatArray, effect: FloatArray, interval: FloatArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which pairs [pairs] are wide though their cut shows no cost, and which narrow though it costs much.

    `width` is a weight or a contribution, `interval` the half width of the 95 % interval of `effect`; see
    `RULE_IN_WORDS`. A pair without one of the three is in neither, and below `FEWEST_PAIRS` none is.
    """
    whole = np.isfinite(width) & np.isfinite(effect) & np.isfinite(interval)
    none = np.zeros(whole.shape, dtype=bool)
    if whole.sum() < FEWEST_PAIRS:
        return none, none
    top, middle = np.quantile(width[whole], (1 - TENTH, 0.5))
    much = np.quantile(effect[whole], 1 - TENTH)
    with np.errstate(invalid="ignore"):
        free = whole & (width >= top) & (np.abs(effect) <= interval) & (effect < much)
        costly = whole & (width < middle) & (effect >= much) & (effect > interval)
    return free, costly
