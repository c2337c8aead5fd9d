"""Quantities that are entries of another one, and are read from there in runs that do not record them themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import QUANTITIES

Array = npt.NDArray[Any]


def holder(name: str) -> str:
    """Return the recorded quantity that has the one called `name` among its entries; empty for most."""
    known = QUANTITIES.get(name)
    return known.held_by if known is not None and name in _ENTRIES else ""


def held_entries(name: str, values: Array) -> Array:
    """Return the entries of its holder's `values` [..., target, origin] that are a quantity over layer, [..., layer]."""
    return _ENTRIES[name](values)


def _newest_write(contributions: Array) -> Array:
    """Of each sublayer's write in the very next read: target l + 1, origin l (0 is the embedding, the last the constant)."""
    return np.diagonal(contributions[..., 1:, 1:-1], axis1=-2, axis2=-1)


_ENTRIES: Mapping[str, Callable[[Array], Array]] = {"fresh_share": _newest_write}
