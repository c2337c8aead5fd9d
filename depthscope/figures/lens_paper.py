"""Lenses into depth, drawn for paper: lines over depth for all runs, and a map of CKA for each run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from depthscope.figures.colours_paper import MOST_CELLS, Scale, colour_bar, draw_cells
from depthscope.figures.labelled import Labelled
from depthscope.figures.lens import LENS_VIEWS, line_places
from depthscope.figures.limits import Range
from depthscope.figures.marks_paper import draw_value_axis
from depthscope.figures.paper import (
    LINE,
    MARKER,
    Sheet,
    bare,
    depth_ticks,
    legend,
    panel_title,
    run_handles,
    settled,
)
from depthscope.figures.value_axis import value_axis

_ROW = 1.45
_MAP = 1.75
_CKA = Scale(low=0.0, high=1.0, log=False, signed=False)


def lens_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = False, scale: Range = "shared"
) -> Figure:
    """Return the line panels, one below the other on a column and two in a row on a wide sheet, then a CKA map a run.

    CKA lies between 0 and 1, so its colours are the same whatever `scale` says.
    """
    lines = {name: data for name, data in panels.items() if name != "cka"}
    alike = panels.get("cka")
    across = 2 if sheet.wide else 1
    down = -(-len(lines) // across)
    maps = [] if alike is None else list(alike.arrays)
    beside = 3 if sheet.wide else 2
    rows = -(-len(maps) // beside)
    heights = [_ROW] * down + [_MAP] * rows + ([0.07] if maps else [])
    figure = sheet.figure(0.15 + sum(heights) + (0.4 if maps else 0))
    grid = figure.add_gridspec(len(heights), 6, height_ratios=heights)
    span = 6 // across
    for place, data in enumerate(lines.values()):
        row, column = divmod(place, across)
        axes = figure.add_subplot(grid[row, column * span : (column + 1) * span])
        _lines(axes, data, sheet, log=log, room=sheet.width / across - 0.6)
        panel_title(axes, sheet, data.attributes["title"], "abcdef"[place], room=sheet.width / across - 0.4)
    mesh: Any = None
    for place, run in enumerate(maps):
        row, column = divmod(place, beside)
        width = 6 // beside
        axes = figure.add_subplot(grid[down + row, column * width : (column + 1) * width])
        mesh = _map(axes, alike, run, sheet, room=sheet.width / beside - 0.5) if alike is not None else None
        letters = max(8, sheet.letters(sheet.width / beside) - 10)
        letter = "abcdefg"[len(lines)] if place == 0 else ""
        panel_title(axes, sheet, f"CKA, {sheet.name(run, letters)}", letter)
    if maps:
        bar = figure.add_subplot(grid[-1, :])
        colour_bar(figure, mesh, sheet, _CKA, ["linear CKA"], room=sheet.width - 0.3, inside=bar)
    drawn = [run for run in sheet.order if any(run in data.arrays for data in panels.values())]
    legend(figure, sheet, run_handles(sheet, drawn))
    return settled(figure)


def _lines(axes: Axes, data: Labelled, sheet: Sheet, *, log: bool, room: float) -> None:
    bare(axes, sheet, grid=True)
    show = data.attributes["show"]
    view = LENS_VIEWS[show]
    arrays = list(data.arrays.values())
    values = value_axis(arrays, log=log and show in ("kl", "loss"), signed=bool(data.attributes["signed"]))
    for run, array in data.arrays.items():
        y, along = values.drawable(array.values), line_places(array)
        for part in (slice(0, along), slice(along, None)):
            if y[part].size:
                axes.plot(
                    array["x"].values[part],
                    y[part],
                    color=sheet.colour(run),
                    linestyle=sheet.dash(run),
                    linewidth=LINE,
                    marker="o" if show == "attribution" else "",
                    markersize=MARKER,
                    gid=f"{show} {run}",
                )
    draw_value_axis(axes, values)
    last = int(max(float(array["x"].values.max()) for array in arrays))
    if show == "influence":
        axes.set_xlim(0.5, last + 0.5)
        axes.set_xticks(depth_ticks(last, [0] * last, room=room, apart=0.24))
    else:
        constant = show == "attribution"
        layers = last - constant
        ticks = depth_ticks(layers, [0] * layers, room=room, apart=0.24)
        inner = [
            tick
            for tick in ticks
            if tick * room / last > 0.32 and (last - tick) * room / last >= 0.38 * constant
        ]
        axes.set_xlim(-0.02 * last, 1.02 * last)
        axes.set_xticks(
            [0, *inner, *([last] if constant else [])],
            ["emb", *map(str, inner), *(["const"] if constant else [])],
        )
    axes.set_xlabel(view.axis, labelpad=1)
    axes.set_ylabel(view.unit if view.unit != "logit of the right token" else "logit", labelpad=1)


def _map(axes: Axes, data: Labelled, run: str, sheet: Sheet, *, room: float) -> Any:
    bare(axes, sheet, grid=False)
    array = data.arrays[run]
    size = array.sizes["place"]
    edges = np.arange(size + 1) - 0.5
    mesh = draw_cells(axes, array.values, edges, edges, _CKA, sheet, vectors=array.size <= MOST_CELLS)
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(size - 0.5, -0.5)
    ticks = [
        tick
        for tick in depth_ticks(size - 1, [0] * (size - 1), room=room, apart=0.22)
        if tick * room / size > 0.3
    ]
    labels = ["emb", *map(str, ticks)]
    axes.set_xticks([0, *ticks], labels)
    axes.set_yticks([0, *ticks], labels)
    axes.set_xlabel("sublayers passed", labelpad=1)
    return mesh
