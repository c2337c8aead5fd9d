"""Block boundaries, what page and paper draw alike: axes, lines or colours, and which lines of very many."""

from __future__ import annotations

import numpy as np
import xarray as xr

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits, has_logarithm, limits_of
from depthscope.figures.names import shortened
from depthscope.figures.ticks import layer_ticks
from depthscope.figures.value_axis import ValueAxis, value_axis

MOST_FOLDED = 12
"""Blocks of a run up to which each is a line over the positions; above, blocks are the rows of a map."""
MOST_LINES = 16
"""Lines over steps in one panel; above, each run keeps blocks that are evenly spaced in depth."""
MOST_NUMBERED = 6
"""Lines that get their number at the end, and the most boundaries of one run that are lines."""
_LEAST_OF_A_RUN = 2
_MOST_MARKED = 12
_RATIOS = ("reset", "read")
_WIDTHS = (1.0, 2.6)
"""Pixels, of the first and the last block's line."""


def drawn_as_map(data: Labelled) -> bool:
    """Return whether the folded profile is a map, block by position: all runs alike, to be read with one key."""
    if data.attributes["show"] != "folded":
        return False
    return max((array.sizes["block"] for array in data.arrays.values()), default=0) > MOST_FOLDED


def boundary_map_log(data: Labelled, asked: bool) -> bool:
    """Return whether the colours of a folded map are logarithmic."""
    return asked and not data.attributes["signed"] and has_logarithm(data.arrays.values())


def boundary_map_limits(data: Labelled, *, log: bool) -> Limits | None:
    """Return the common ends of a folded map's colours, without the outer 1 % of values."""
    return limits_of(
        data.arrays.values(), log=boundary_map_log(data, log), symmetric=bool(data.attributes["signed"])
    )


def boundary_axis(data: Labelled, *, log: bool) -> ValueAxis:
    """Return the value axis of the lines of `block_boundaries_data`, one for all runs.

    Over steps it leaves out each run's first tenth of records, as the loss does, where these would take more than
    half of it; what lies beyond it is marked at its edge. A ratio's axis holds 1.
    """
    show = data.attributes["show"]
    if show == "folded":
        return value_axis(data.arrays.values(), log=log, signed=bool(data.attributes["signed"]))
    rows = rows_drawn(data)
    drawn = [array[rows[run]] for run, array in data.arrays.items()]
    settled = [array.isel(column=slice(array.sizes["column"] // 10, None)) for array in drawn]
    whole, later = (_over_steps(arrays, show, log=log) for arrays in (drawn, settled))
    roomy = whole.high - whole.low <= 2 * (later.high - later.low)
    return whole if roomy else later


def _over_steps(arrays: list[xr.DataArray], show: str, *, log: bool) -> ValueAxis:
    one = [xr.DataArray(np.ones(1), dims="one")] if show in _RATIOS and arrays else []
    return value_axis([*arrays, *one], log=log, signed=show in _RATIOS and not log)


def has_reference(data: Labelled) -> bool:
    """Return whether a line stands at 1."""
    return data.attributes["show"] in _RATIOS


def rows_drawn(data: Labelled) -> dict[str, list[int]]:
    """Return for each run which of its blocks or boundaries are lines, counted from 0."""
    counts = {run: array.shape[0] for run, array in data.arrays.items()}
    show = data.attributes["show"]
    if show == "folded":
        return {run: list(range(count)) for run, count in counts.items()}
    most = MOST_NUMBERED if show in _RATIOS else MOST_LINES
    if sum(min(count, most) for count in counts.values()) > MOST_LINES:
        most = min(most, max(_LEAST_OF_A_RUN, MOST_LINES // len(counts)))
    return {run: _spread(count, most) for run, count in counts.items()}


def left_out_words(data: Labelled) -> str:
    """Say how many lines are drawn of a run whose lines are not all: ``deep: 6 of 21 boundaries``."""
    told = []
    for run, rows in rows_drawn(data).items():
        array = data.arrays[run]
        if len(rows) < array.shape[0]:
            kind = {"block": "blocks", "boundary": "boundaries"}[str(array.dims[0])]
            name = shortened(data.names.get(run, run), 20)
            told.append(f"{name}: {len(rows)} of {array.shape[0]} {kind}")
    return "; ".join(told)


def has_position_markers(array: xr.DataArray) -> bool:
    """Return whether the positions of a folded profile have room for markers."""
    return array.sizes["position"] <= _MOST_MARKED


def position_ticks(positions: int) -> list[int]:
    """Return the positions in a block to label: all up to eight, else round ones."""
    return list(range(1, positions + 1)) if positions <= 8 else layer_ticks(positions, [0] * positions)


def line_width(row: int, count: int) -> float:
    """Return the width of line `row` of `count`, in pixels: the later in depth, the thicker.

    Fainter lines would fall below the contrast that a line needs.
    """
    thin, thick = _WIDTHS
    return thick if count < 2 else thin + (thick - thin) * row / (count - 1)


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` places from 0 to `count` - 1, both ends included, evenly spaced."""
    if count <= most:
        return list(range(count))
    return sorted({round(place) for place in np.linspace(0, count - 1, most)})
