"""The rows of a map over targets: which read each is, and where residual blocks begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout


def target_kinds(layout: DepthLayout) -> npt.NDArray[np.str_]:
    """Return the kind of each target: that of its sublayer, and ``output`` for the final read."""
    return np.array([*layout.layer_kinds, "output"])


def target_coordinates(layout: DepthLayout, shown: npt.NDArray[np.intp]) -> dict[str, Any]:
    """Return the coordinates of the rows `shown`, given as indices of targets from 0.

    ``target`` (sublayer, L + 1 is the final read), ``target_name``, ``target_kind`` (attention, mlp, other,
    output), ``starts_block`` (a block boundary or the final read lies before this row).
    """
    return {
        "target": shown + 1,
        "target_name": ("target", np.array(layout.target_names)[shown]),
        "target_kind": ("target", target_kinds(layout)[shown]),
        "starts_block": ("target", _starts_block(layout, shown)),
    }


def _starts_block(layout: DepthLayout, shown: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return for each row whether another residual block begins with it; the final read stands apart."""
    blocks = np.array([*layout.residual_block, max(layout.residual_block, default=0) + 1])[shown]
    return np.concatenate([[False], np.diff(blocks) != 0]) if shown.size else np.zeros(0, bool)
