"""Depth attention, drawn for paper: weight and contribution side by side, as in the paper's Figure 8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import Normal, Stroke

from depthscope.figures.attention_marks import block_gaps, partial_stretches
from depthscope.figures.colours_paper import (
    MOST_CELLS,
    Scale,
    colour_bar,
    draw_cells,
    staircase,
    unreachable_face,
)
from depthscope.figures.depth_attention import PARTS, attention_limits
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.paper import Sheet, bare, kind_handles, legend, panel_title
from depthscope.figures.source_axis_paper import source_ticks
from depthscope.figures.target_axis_paper import DOT, MOST_DOTS, target_ticks

_GAP = 0.8
"""Points between two blocks."""
_MAP_HEIGHT = 115.0
"""Points, about, of the rows of a map."""


def depth_attention_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = False, scale: Range = "shared"
) -> Figure:
    """Return a pair of maps for each run: one pair in a row on a column, two on a wide sheet.

    All runs share the two colour ranges; with `scale` ``own`` each run has its own pair of bars.
    """
    (data,) = panels.values()
    runs = list(data.arrays)
    pairs = min(len(runs), 2) if sheet.wide else 1
    down = -(-len(runs) // pairs)
    own = scale == "own" and len(runs) > 1
    height = 0.1 + down * 2.15 + (0.5 * down if own else 0.5)
    figure = sheet.figure(height)
    ratios = [ratio for _ in range(down) for ratio in (1.0, 0.045)] if own else [1.0] * down + [0.045]
    grid = figure.add_gridspec(len(ratios), 2 * pairs, height_ratios=ratios)
    vectors = sum(array.size for array in data.arrays.values()) <= MOST_CELLS
    scales = _scales(data, list(data.arrays.values()))
    meshes: dict[str, Any] = {}
    for place, (run, array) in enumerate(data.arrays.items()):
        row, column = divmod(place, pairs)
        used = _scales(data, [array]) if own else scales
        for side, part in enumerate(PARTS):
            axes = figure.add_subplot(grid[row * (2 if own else 1), 2 * column + side])
            shown = array.sel(part=part)
            meshes[part] = _map(
                axes,
                shown,
                used[part],
                sheet,
                vectors=vectors,
                labelled=side == 0,
                room=sheet.width / (2 * pairs) - 0.35,
            )
            name = sheet.name(run, max(8, sheet.letters(sheet.width / 2 / pairs) - 10))
            panel_title(axes, sheet, f"{name}, weight" if side == 0 else part)
            if own:
                bar = figure.add_subplot(grid[row * 2 + 1, 2 * column + side])
                words = [_label(data, part), "own range"]
                room = sheet.width / (2 * pairs) - 0.2
                colour_bar(figure, meshes[part], sheet, used[part], words, room=room, inside=bar)
    if not own:
        for side, part in enumerate(PARTS):
            bar = figure.add_subplot(grid[-1, side * pairs : (side + 1) * pairs])
            words = [_label(data, part), "one range for all runs" if len(runs) > 1 else ""]
            colour_bar(
                figure, meshes[part], sheet, scales[part], words, room=sheet.width / 2 - 0.2, inside=bar
            )
    legend(figure, sheet, _handles(data, sheet))
    return figure


def _scales(data: Labelled, arrays: list[xr.DataArray]) -> dict[str, Scale]:
    found = {}
    for part in PARTS:
        signed = part == "contribution" or bool(data.attributes["signed"])
        limits = attention_limits(arrays, part, signed=signed)
        low, high = (0.0, 1.0) if limits is None else (limits.low, limits.high)
        found[part] = Scale(
            low=low,
            high=high,
            log=False,
            signed=signed,
            clips_low=limits is not None and limits.clips_low,
            clips_high=limits is not None and limits.clips_high,
        )
    return found


def _label(data: Labelled, part: str) -> str:
    view = data.attributes["mode"]
    if part == "weight":
        return {"spread": "weight: spread over tokens", "uniform": "weight − uniform"}.get(view, "weight")
    return "contribution − uniform" if view == "uniform" else "contribution"


def _map(
    axes: Axes, array: xr.DataArray, scale: Scale, sheet: Sheet, *, vectors: bool, labelled: bool, room: float
) -> Any:
    bare(axes, sheet, grid=False)
    targets, sources = array.shape
    mesh = draw_cells(
        axes,
        array.values,
        np.arange(sources + 1) - 0.5,
        np.arange(targets + 1) - 0.5,
        scale,
        sheet,
        vectors=vectors,
    )
    staircase(axes, np.asarray(array["reachable"].values, dtype=bool), sheet, left=-0.5, top=-0.5)
    for row, width in block_gaps(array, _MAP_HEIGHT / targets, _GAP):
        axes.hlines(row - 0.5, -0.5, sources - 0.5, color=sheet["surface"], linewidth=width)
    _partial(axes, array, sheet)
    axes.set_xlim(-0.5, sources - 0.5)
    axes.set_ylim(targets - 0.5, -0.5)
    source_ticks(axes, array, room)
    target_ticks(axes, array, sheet, labelled)
    return mesh


def _partial(axes: Axes, array: xr.DataArray, sheet: Sheet) -> None:
    """Mark the partial sum of each target's own block: a dot a cell, or a line along the cells of many rows."""
    partial = np.asarray(array["partial"].values)
    if array.sizes["target"] <= MOST_DOTS:
        held = np.flatnonzero(partial >= 0)
        axes.plot(partial[held], held, linestyle="none", **_partial_mark(sheet))
        return
    for first, last in partial_stretches(array):
        axes.plot([partial[first]] * 2, [first - 0.2, last + 0.2], **_partial_line(sheet))


def _partial_mark(sheet: Sheet) -> dict[str, Any]:
    return {
        "marker": "o",
        "markersize": DOT,
        "color": sheet["surface"],
        "markeredgecolor": sheet["text"],
        "markeredgewidth": 0.4,
    }


def _partial_line(sheet: Sheet) -> dict[str, Any]:
    edge = [Stroke(linewidth=1.0, foreground=sheet["text"]), Normal()]
    return {"color": sheet["surface"], "linewidth": 0.45, "path_effects": edge, "solid_capstyle": "butt"}


def _handles(data: Labelled, sheet: Sheet) -> list[Line2D | Patch]:
    arrays = [array for array in data.arrays.values()]
    small = [array for array in arrays if array.sizes["target"] <= MOST_DOTS]
    kinds = {str(kind) for array in small for kind in array["target_kind"].values}
    handles: list[Line2D | Patch] = [*kind_handles(sheet, sorted(kinds))]
    if any((array["partial"].values >= 0).any() for array in small):
        handles.append(Line2D([], [], linestyle="none", label="partial block", **_partial_mark(sheet)))
    elif any(partial_stretches(array) for array in arrays):
        handles.append(Line2D([], [], label="partial block", **_partial_line(sheet)))
    hidden = any(bool(array["hidden"].values.any()) for array in arrays)
    if any(not array["reachable"].values.all() for array in arrays):
        handles.append(Patch(**unreachable_face(sheet), label="unreachable"))
    if hidden:
        handles.append(Patch(facecolor=sheet["chart-hatch"], label="hidden"))
    return handles
