"""Mixing, drawn for paper: one signed map a run, side by side, with cancellation as bars beside each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from depthscope.analysis import CANCELS
from depthscope.figures.attention_marks import block_gaps
from depthscope.figures.colours_paper import (
    MOST_CELLS,
    Scale,
    colour_bar,
    draw_cells,
    staircase,
    unreachable_face,
)
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.mixing import cancellation_top, mixing_limits
from depthscope.figures.origin_axis import STRIPS, OriginAxis
from depthscope.figures.paper import Sheet, bare, kind_handles, legend, panel_title
from depthscope.figures.target_axis_paper import MOST_DOTS, target_ticks

_GAP = 0.8
"""Points between two blocks."""
_MAP_HEIGHT = 110.0
"""Points, about, of the rows of a map."""
_BARS = 0.2
"""Width of the bars of cancellation over that of a map."""
_PX = 96.0
"""Of an inch: ticks are chosen as on the screen, where letters are about as wide."""


def mixing_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = False, scale: Range = "shared"
) -> Figure:
    """Return one map a run: two in a row on a column, four on a wide sheet, half as many where depths differ.

    All runs share the colour range and the scale of cancellation; with `scale` ``own`` each map has its own bar.
    """
    (data,) = panels.values()
    runs = list(data.arrays)
    alike = _alike(data)
    across = min(len(runs), (4 if sheet.wide else 2) // (1 if alike else 2))
    down = -(-len(runs) // across)
    own = scale == "own" and len(runs) > 1
    figure = sheet.figure(0.1 + down * 2.05 + (0.5 * down if own else 0.5))
    heights = [size for _ in range(down) for size in (1.0, 0.045)] if own else [1.0] * down + [0.045]
    grid = figure.add_gridspec(
        len(heights), 2 * across, height_ratios=heights, width_ratios=[1, _BARS] * across
    )
    vectors = sum(array.size for array in data.arrays.values()) <= MOST_CELLS
    room = (sheet.width - 0.2) / across
    shared = _scale(list(data.arrays.values()))
    top = cancellation_top(list(data.arrays.values()))
    mesh: Any = None
    for place, (run, array) in enumerate(data.arrays.items()):
        row, column = divmod(place, across)
        line = row * (2 if own else 1)
        used = _scale([array]) if own else shared
        axes = figure.add_subplot(grid[line, 2 * column])
        bars = figure.add_subplot(grid[line, 2 * column + 1])
        labelled = column == 0 or not alike
        wide = (room - (0.75 if labelled else 0.3)) / (1 + _BARS)
        mesh = _map(axes, array, used, sheet, vectors=vectors, labelled=labelled, room=wide)
        axes.set_ylabel("target sublayer" if column == 0 else "", labelpad=1)
        _cancellation(bars, array, sheet, top)
        panel_title(axes, sheet, sheet.name(run, max(8, sheet.letters(room - 0.45))))
        if own:
            under = figure.add_subplot(grid[line + 1, 2 * column : 2 * column + 2])
            words = [_words(data), "own range"]
            colour_bar(figure, mesh, sheet, used, words, room=room - 0.2, inside=under)
    if not own:
        under = figure.add_subplot(grid[-1, :])
        words = [_words(data), "one range for all runs" if len(runs) > 1 else ""]
        colour_bar(figure, mesh, sheet, shared, words, room=sheet.width - 0.2, inside=under)
    legend(figure, sheet, _handles(data, sheet))
    return figure


def _alike(data: Labelled) -> bool:
    """Return whether all runs have the same targets, so that the maps of a row share their labels."""
    return len({tuple(array["target_name"].values.tolist()) for array in data.arrays.values()}) <= 1


def _words(data: Labelled) -> str:
    share = str(data.attributes["share"])
    return f"difference of {share}s" if data.attributes["mode"] == "difference" else share


def _scale(arrays: list[xr.DataArray]) -> Scale:
    limits = mixing_limits(arrays)
    low, high = (-1.0, 1.0) if limits is None else (limits.low, limits.high)
    return Scale(
        low=low,
        high=high,
        log=False,
        signed=True,
        clips_low=limits is not None and limits.clips_low,
        clips_high=limits is not None and limits.clips_high,
    )


def _map(
    axes: Axes, array: xr.DataArray, scale: Scale, sheet: Sheet, *, vectors: bool, labelled: bool, room: float
) -> Any:
    """Draw embedding, sublayers and constant on one axis, the outer two wide enough to read."""
    bare(axes, sheet, grid=False)
    places = OriginAxis(layers=array.sizes["origin"] - 2)
    targets = array.sizes["target"]
    rows = np.arange(targets + 1) - 0.5
    mesh: Any = None
    for strip in STRIPS:
        low, high = places.edges(strip)
        columns = places.columns(strip)
        if np.isnan(array.values[:, columns]).all():
            axes.add_patch(Rectangle((low, -0.5), high - low, targets, **unreachable_face(sheet)))
            continue
        edges = np.linspace(low, high, columns.stop - columns.start + 1)
        drawn = draw_cells(axes, array.values[:, columns], edges, rows, scale, sheet, vectors=vectors)
        mesh = drawn if strip == "sublayers" else mesh
    axes.set_facecolor(sheet["surface"])
    staircase(axes, np.isfinite(array.values[:, 1:-1]), sheet, left=0.5, top=-0.5)
    for row, width in block_gaps(array, _MAP_HEIGHT / targets, _GAP):
        axes.hlines(row - 0.5, *places.ends, color=sheet["surface"], linewidth=width)
        if row < targets - 1 and width == _GAP:
            axes.vlines(row + 0.5, -0.5, targets - 0.5, color=sheet["surface"], linewidth=width)
    axes.set_xlim(*places.ends)
    axes.set_ylim(targets - 0.5, -0.5)
    labels = axes.set_xticks(*places.ticks(room * _PX, inward=True))
    labels[0].label1.set_horizontalalignment("left")  # within the map, so that its neighbours may come near
    labels[-1].label1.set_horizontalalignment("right")
    axes.set_xlabel("origin", labelpad=1)
    target_ticks(axes, array, sheet, labelled)
    return mesh


def _cancellation(axes: Axes, array: xr.DataArray, sheet: Sheet, top: float) -> None:
    """Draw bars from 1, where nothing cancels, and the line at 2, past which they are darker."""
    bare(axes, sheet, grid=False)
    size = np.nan_to_num(np.asarray(array["cancellation"].values), nan=1.0)
    colours = [sheet["text-secondary" if past else "border-control"] for past in size > CANCELS]
    height = 0.65 if size.size <= MOST_DOTS else 1.0
    axes.barh(np.arange(size.size), np.minimum(size, top) - 1, height=height, left=1.0, color=colours)
    axes.axvline(1.0, color=sheet["chart-axis"], linewidth=0.6)
    axes.axvline(CANCELS, color=sheet["text-muted"], linewidth=0.6, linestyle=(0, (3, 2)))
    axes.set_xlim(1, top)
    axes.set_ylim(size.size - 0.5, -0.5)
    axes.set_xticks([2.0] if top < 4 else [2.0, top], ["2"] if top < 4 else ["2", f"{top:g}"])
    # Wider than its axis, and the layout keeps no room for that: it ends with the bars, not at the next run's map.
    axes.set_xlabel("cancels", labelpad=1, loc="right")
    axes.set_yticks([])


def _handles(data: Labelled, sheet: Sheet) -> list[Line2D | Patch]:
    arrays = list(data.arrays.values())
    small = [array for array in arrays if array.sizes["target"] <= MOST_DOTS]
    kinds = {str(kind) for array in small for kind in array["target_kind"].values}
    handles: list[Line2D | Patch] = [*kind_handles(sheet, sorted(kinds))]
    contributions = data.attributes["share"] == "contribution"
    if any(np.isnan(array.values[:, 1:-1]).any() for array in arrays):
        handles.append(Patch(**unreachable_face(sheet), label="not read" if contributions else "no factor"))
    handles.append(Patch(facecolor=sheet["border-control"], label="cancellation"))
    line: dict[str, Any] = {"color": sheet["text-muted"], "linewidth": 0.6, "linestyle": (0, (3, 2))}
    handles.append(Line2D([], [], label="cancels past 2", **line))
    return handles
