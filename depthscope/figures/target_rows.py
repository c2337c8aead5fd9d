"""The rows of a map over targets: which read each is, where residual blocks begin, and which are labelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.ticks import layer_ticks
from depthscope.quantities import DepthLayout

_MOST_LABELS = 8
"""Between the first row and the final read."""


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


def target_labels(array: xr.DataArray, *, apart: float) -> tuple[list[int], list[str]]:
    """Return the rows to label and their labels: the first rows of blocks, else round sublayers, and the output.

    Labels of the first row and of the output stay; others give way where they would be nearer than `apart` rows.
    """
    targets = array["target"].values.tolist()
    kinds = array["target_kind"].values.tolist()
    rows = [row for row in range(len(targets)) if kinds[row] != "output"]
    output = [row for row in range(len(targets)) if kinds[row] == "output"]
    starts = [row for row in rows if array["starts_block"].values[row]]
    if not starts and rows:
        # Where only one kind is shown, the first row at or after a round number stands for it.
        numbers = layer_ticks(targets[rows[-1]], [0] * targets[rows[-1]])[1:-1]
        starts = [next(row for row in rows if targets[row] >= number) for number in numbers]
    every = -(-len(starts) // _MOST_LABELS) or 1
    while every < len(starts) and (starts[every] - starts[0]) < apart:
        every += 1
    ends = [*rows[:1], *output]
    between = [row for row in starts[every - 1 :: every] if all(abs(row - end) >= apart for end in ends)]
    chosen = [*rows[:1], *between]
    return [*chosen, *output], [*(str(targets[row]) for row in chosen), *("output" for _ in output)]


def _starts_block(layout: DepthLayout, shown: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return for each row whether another residual block begins with it; the final read stands apart."""
    blocks = np.array([*layout.residual_block, max(layout.residual_block, default=0) + 1])[shown]
    return np.concatenate([[False], np.diff(blocks) != 0]) if shown.size else np.zeros(0, bool)
