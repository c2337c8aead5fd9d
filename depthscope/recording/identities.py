"""Identities of the residual stream, checked on sums that are there anyway: compiled code is not looked into."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from depthscope.probes import Array
from depthscope.quantities import DepthLayout


def write_gap(merged: Mapping[int, Mapping[str, Array]], layout: DepthLayout) -> Array | None:
    """Return, for each additive layer, how far |h|^2 + 2 <h, f> + |f|^2 is from |s|^2, relative to their sizes."""
    found = _moments(merged, "state_square", "read_square", "write_square", "dot")
    if found is None:
        return None
    state, read, write, dot = found
    gap = np.abs(state - (read + 2 * dot + write)) / (state + read + write)
    return np.where(layout.additive, gap, np.nan)


def mix_gap(merged: Mapping[int, Mapping[str, Array]]) -> Array | None:
    """Return, for each target, how far |sum_i alpha_i v_i|^2 is from |h|^2 as the target read it."""
    mixed, read, final = (
        _moments(merged, name) for name in ("mix_square", "read_square", "final_read_square")
    )
    if mixed is None or read is None:
        return None
    whole = np.concatenate([read[0], final[0] if final is not None else [np.nan]])
    gap: Array = np.abs(mixed[0] - whole) / whole
    return gap


def _moments(merged: Mapping[int, Mapping[str, Array]], *names: str) -> list[Array] | None:
    for moments in merged.values():
        if all(name in moments for name in names):
            return [moments[name] for name in names]
    return None
