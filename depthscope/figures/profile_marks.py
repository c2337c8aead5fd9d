"""What the marks and the gaps of a profile's lines stand for, in words: values that a line cannot show."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from depthscope.figures.depth_profile import profile_axis
from depthscope.figures.labelled import Labelled
from depthscope.figures.unusual import kinds

_SAYS = MappingProxyType(
    {
        "NaN": "crosses at the lower edge: NaN",
        "infinite": "triangles at the upper edge: infinite values",
        "minus infinite": "triangles at the lower edge: values of minus infinity",
        "zero or less": "ticks at the lower edge: values of 0 or less, which have no place on a log axis",
    }
)


def profile_marks(data: Labelled, *, log: bool) -> list[str]:
    """Return what each kind of mark in `depth_profile_data` stands for; empty where there is none.

    `log` is what the figure was asked to be drawn with.
    """
    drawn = profile_axis(data, log=log).log
    found = dict.fromkeys(_SAYS, False)
    for array in data.arrays.values():
        values = np.asarray(array.values[0], dtype=np.float64)
        for kind, mask in kinds(values, np.asarray(array["reachable"].values), log=drawn).items():
            found[kind] |= bool(mask.any())
    return [words for kind, words in _SAYS.items() if found[kind]]


def has_design_gaps(data: Labelled) -> bool:
    """Return whether a line of `depth_profile_data` is broken where the run's design has no such value."""
    for array in data.arrays.values():
        held = np.flatnonzero(array["reachable"].values)
        if held.size and held.size < held[-1] - held[0] + 1:
            return True
    return False
