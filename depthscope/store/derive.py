"""Quantities that are not stored: computed on reading from those that are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import QUANTITIES, DepthLayout

Array = npt.NDArray[Any]


def inputs(name: str) -> tuple[str, ...]:
    """Return the recorded quantities that a derived one is computed from; empty for any other name."""
    known = QUANTITIES.get(name)
    return known.derived if known is not None and name in _RULES else ()


def derive(name: str, values: Mapping[str, Array], layout: DepthLayout) -> Array:
    """Compute a derived quantity from its inputs, each [n, layers]; returns [n, layers] in their dtype."""
    with np.errstate(all="ignore"):
        return _RULES[name](values, layout)


def _grad_state_rms(values: Mapping[str, Array], layout: DepthLayout) -> Array:
    """dL/ds_l = dL/df_l wherever s_l = something + f_l; NaN elsewhere, and where no state is seen."""
    seen = np.array(layout.states, bool) & np.array(layout.summed or layout.states, bool)
    return np.where(seen, values["grad_write_rms"], np.float32(np.nan))


def _grad_relative(values: Mapping[str, Array], layout: DepthLayout) -> Array:
    return np.asarray(values["write_rms"] * values["grad_write_rms"])


def _write_share(values: Mapping[str, Array], layout: DepthLayout) -> Array:
    """All sublayers see the same tokens, so the sums of squares are as the squares of the rms."""
    squares = np.square(values["write_rms"], dtype="f8")
    return np.asarray(squares / squares.sum(-1, keepdims=True)).astype(values["write_rms"].dtype)


_RULES: Mapping[str, Callable[[Mapping[str, Array], DepthLayout], Array]] = {
    "grad_state_rms": _grad_state_rms,
    "grad_relative": _grad_relative,
    "write_share": _write_share,
}
DERIVED = tuple(_RULES)
"""Names of all derived quantities."""
