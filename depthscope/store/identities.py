"""What must hold between recorded quantities by their definitions, as the largest deviation over some rows.

Each function takes arrays [rows, ...] and the layout, and returns the largest deviation, negative when there
is no value to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout

Array = npt.NDArray[Any]
Rows = Mapping[str, Array]


def _largest(deviation: Array) -> float:
    known = deviation[np.isfinite(deviation)]
    return float(known.max()) if known.size else -1.0


def _rows_sum_to_one(name: str) -> Callable[[Rows, DepthLayout], float]:
    def largest(rows: Rows, layout: DepthLayout) -> float:
        values = rows[name].astype("f8")
        if name == "depth_attention" and not layout.normalised:
            return -1.0
        known = ~np.isnan(values).all(-1)
        return _largest(np.abs(np.nansum(values, -1) - 1)[known])

    return largest


def _energy(rows: Rows, layout: DepthLayout) -> float:
    """|s|^2 = |h|^2 + 2 <h, f> + |f|^2 where a write is added to the read."""
    state, read, write, dot = (
        rows[name].astype("f8") for name in ("state_rms", "read_rms", "write_rms", "write_dot")
    )
    with np.errstate(all="ignore"):
        off = np.abs(state**2 - read**2 - 2 * dot - write**2) / np.maximum(state**2, read**2 + write**2)
    return _largest(off[:, np.array(layout.additive, bool)])


def _below(smaller: str, larger: str, *, log: bool) -> Callable[[Rows, DepthLayout], float]:
    def largest(rows: Rows, layout: DepthLayout) -> float:
        low, high = rows[smaller].astype("f8"), rows[larger].astype("f8")
        with np.errstate(all="ignore"):
            return _largest(np.maximum(low - np.log(high) if log else low / high - 1, 0))

    return largest


IDENTITIES: Mapping[str, tuple[tuple[str, ...], Callable[[Rows, DepthLayout], float], float]] = {
    "depth attention sums to 1": (("depth_attention",), _rows_sum_to_one("depth_attention"), 4e-3),
    "depth contributions sum to 1": (("depth_contribution",), _rows_sum_to_one("depth_contribution"), 2e-2),
    "state = read + write": (("state_rms", "read_rms", "write_rms", "write_dot"), _energy, 2e-2),
    "state rms <= largest entry": (("state_rms", "abs_max"), _below("state_rms", "abs_max", log=False), 1e-2),
    **{
        f"{name}: mean log <= log of rms": (
            (f"{name}_logrms", f"{name}_rms"),
            _below(f"{name}_logrms", f"{name}_rms", log=True),
            1e-4,
        )
        for name in ("write", "state", "read")
    },
}
"""By name: the quantities needed, the deviation, and how much of it rounding explains."""
