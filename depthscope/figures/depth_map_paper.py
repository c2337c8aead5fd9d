"""Depth map, drawn for paper: one map a run, depth downward, one colour range for all unless asked otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from depthscope.figures.bands import banded_runs
from depthscope.figures.colours_paper import (
    MOST_CELLS,
    NOT_RECORDED,
    Scale,
    colour_bar,
    draw_cells,
    missing_handles,
    past_the_end_face,
    scale_of,
    unreachable_face,
)
from depthscope.figures.depth_map import map_log
from depthscope.figures.depth_profile_paper import against
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.loss_paper import step_axis
from depthscope.figures.map_marks import MANY_BOUNDARIES, column_edges, column_width
from depthscope.figures.paper import Sheet, bare, depth_ticks, legend, panel_title


def depth_map_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = True, scale: Range = "shared"
) -> Figure:
    """Return the maps of one panel, the runs side by side: two on a column, four on a wide sheet."""
    (data,) = panels.values()
    runs = list(data.arrays)
    log = map_log(data, log)
    across = min(len(runs), 4 if sheet.wide else 2)
    down = -(-len(runs) // across)
    figure = sheet.figure(0.5 + 1.55 * down + (0.35 * down if scale == "own" else 0))
    grid = figure.subplots(down, across, squeeze=False)
    shared = None if scale == "own" else scale_of(data, data.arrays.values(), log=log, robust=scale != "full")
    last = max(int(array["step_end"].values[-1]) for array in data.arrays.values())
    hidden, absent, below, ended = False, False, False, False
    vectors = sum(array.size for array in data.arrays.values()) <= MOST_CELLS
    alike = len({array.sizes["layer"] for array in data.arrays.values()}) == 1
    ticked = (banded_runs(data.arrays, sheet.look.focus) or runs)[0] if alike else None
    for place, (axes, run) in enumerate(zip(grid.flat, runs, strict=False)):
        array = data.arrays[run]
        own = shared or scale_of(data, [array], log=log, robust=True)
        mesh = _map(axes, array, own, sheet, last, vectors=vectors)
        hidden |= not bool(array["reachable"].values.all())
        absent |= bool(np.isnan(array.values[array["reachable"].values]).any())
        ended |= _ends_before(array, last)
        below |= own.log and bool((array.values <= 0).any())
        panel_title(axes, sheet, sheet.name(run, 22))
        layers = array.sizes["layer"]
        if place % across == 0:
            axes.set_ylabel("sublayer", labelpad=1)
        labelled = place % across == 0 or not alike
        blocks = data.arrays[ticked or run]["residual_block"].values.tolist()
        ticks = depth_ticks(layers, blocks, room=1.1, apart=0.14)
        axes.set_yticks(ticks if labelled else [])
        if place + across < len(runs):
            axes.set_xlabel("")
        if shared is None:
            room = sheet.width / across - 0.2
            colour_bar(figure, mesh, sheet, own, [label_of(data), "own range"], room=room, under=[axes])
        elif place == 0:
            first = mesh
    for axes in grid.flat[len(runs) :]:
        axes.set_visible(False)
    if shared is not None:
        note = "one range for all runs" if len(runs) > 1 else ""
        words = [label_of(data), note]
        colour_bar(figure, first, sheet, shared, words, room=sheet.width - 0.3, under=list(grid.flat))
    legend(
        figure,
        sheet,
        missing_handles(
            sheet, unreachable=hidden, missing=absent, below=below, past=NOT_RECORDED if ended else ""
        ),
    )
    return figure


def _ends_before(array: xr.DataArray, last: int) -> bool:
    """Return whether a run has recorded nothing over the end of the common time axis, by more than a column."""
    return last - int(array["step_end"].values[-1]) > column_width(array)


def label_of(data: Labelled) -> str:
    """Return what the colours of a map show: ``State, typical token, ‖s‖/√d``."""
    label = against(data) or str(data.attributes["note"])
    title = str(data.attributes["title"]).partition(" by ")[0]
    return title if label in ("1", "") else f"{title}, {label}"


def _map(axes: Axes, array: xr.DataArray, scale: Scale, sheet: Sheet, last: int, *, vectors: bool) -> Any:
    bare(axes, sheet, grid=False)
    layers = array.sizes["layer"]
    edges = column_edges(array)
    mesh = draw_cells(axes, array.values, edges, np.arange(layers + 1) + 0.5, scale, sheet, vectors=vectors)
    for layer in np.flatnonzero(~np.asarray(array["reachable"].values, dtype=bool)):
        axes.add_patch(
            Rectangle(
                (float(edges[0]), float(layer) + 0.5),
                float(edges[-1] - edges[0]),
                1.0,
                **unreachable_face(sheet),
            )
        )
    if _ends_before(array, last):
        axes.add_patch(
            Rectangle(
                (float(edges[-1]), 0.5), last - float(edges[-1]), float(layers), **past_the_end_face(sheet)
            )
        )
    blocks = array["residual_block"].values
    ends = np.flatnonzero(np.diff(blocks)) + 1
    if ends.size <= layers // 2:
        # Between rows of a few points a full line would show instead of the values.
        width, alpha = (0.6, 1.0) if ends.size < MANY_BOUNDARIES else (0.3, 0.35)
        axes.hlines(ends + 0.5, edges[0], edges[-1], color=sheet["surface"], linewidth=width, alpha=alpha)
    axes.set_ylim(layers + 0.5, 0.5)
    step_axis(axes, float(edges[0]), max(float(edges[-1]), float(last)), 3)
    axes.tick_params(axis="y", length=2.5, width=0.5)
    return mesh
