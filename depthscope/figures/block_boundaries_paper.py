"""Block boundaries, drawn for paper: the state folded by position in block, and what changes at boundaries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from depthscope.figures.beyond import Stretch, beyond_words
from depthscope.figures.block_boundaries_axes import (
    MOST_NUMBERED,
    boundary_axis,
    boundary_map_log,
    drawn_as_map,
    has_position_markers,
    has_reference,
    line_width,
    position_ticks,
    rows_drawn,
)
from depthscope.figures.colours_paper import (
    colour_bar,
    draw_cells,
    missing_handles,
    past_the_end_face,
    scale_of,
)
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.loss_paper import step_axis
from depthscope.figures.marks_paper import draw_beyond, draw_unusual, draw_value_axis, end_labels
from depthscope.figures.paper import MARKER, Sheet, bare, depth_ticks, legend, panel_title, run_handles

_ROW = 1.5
_BAR = 0.45
_PAST_A_BLOCK = "past a shorter block's end"
_PIXELS = 0.5
"""Points of a line for each of its pixels on the screen."""


def block_boundaries_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = True, scale: Range = "shared"
) -> Figure:
    """Return a folded profile for each run, then the panels over steps; a control is grey."""
    folded = panels.get("folded")
    others = {name: data for name, data in panels.items() if name != "folded"}
    cells = [] if folded is None else list(folded.arrays)
    mapped = folded is not None and drawn_as_map(folded)
    across = 3 if sheet.wide else 2
    count = len(cells) + len(others)
    across = min(across, count)
    down = -(-count // across)
    figure = sheet.figure(0.1 + _ROW * down + (_BAR if mapped else 0))
    grid = figure.subplots(down, across, squeeze=False)
    places = iter(grid.flat)
    letters = iter("abcdefghijklmnopqrstuvwxyz" if 2 <= count <= 26 else "")
    room = sheet.width / across - 0.45
    maps = []
    short, absent = False, False
    for place, run in enumerate(cells):
        assert folded is not None
        axes = next(places)
        control = " (control)" if folded.arrays[run].attrs["control"] else ""
        if mapped:
            maps.append((axes, _map(axes, run, folded, sheet, log=log)))
            there = folded.arrays[run]["layer"].values > 0
            short |= not bool(there.all())
            absent |= bool(np.isnan(folded.arrays[run].values[there]).any())
        else:
            _folded(axes, run, folded, sheet, log=log)
        if place % across:
            axes.set_ylabel("")
        panel_title(axes, sheet, f"{sheet.name(run, 22)}{control}", next(letters, ""), room=room)
    for data in others.values():
        axes = next(places)
        more = _over_steps(axes, data, sheet, log=log)
        title = ", ".join(filter(None, (data.attributes["title"], more)))
        panel_title(axes, sheet, title, next(letters, ""), room=room)
    for axes in places:
        axes.set_visible(False)
    if maps and folded is not None:
        shared = scale_of(folded, folded.arrays.values(), log=boundary_map_log(folded, log), robust=True)
        words = [f"{folded.attributes['title']}: {_label(folded)}"]
        colour_bar(
            figure, maps[0][1], sheet, shared, words, room=sheet.width - 0.3, under=[axes for axes, _ in maps]
        )
    legend(
        figure,
        sheet,
        [
            *_handles(panels, sheet),
            *missing_handles(sheet, unreachable=False, missing=absent, past=_PAST_A_BLOCK if short else ""),
        ],
    )
    return figure


def _label(data: Labelled) -> str:
    return str(data.attributes["note"]).replace(", activation", " of the state")


def _colour(run: str, array: xr.DataArray, sheet: Sheet) -> str:
    return sheet["run-control"] if array.attrs["control"] else sheet.colour(run)


def _map(axes: Axes, run: str, data: Labelled, sheet: Sheet, *, log: bool) -> object:
    bare(axes, sheet, grid=False)
    array = data.arrays[run]
    blocks, positions = array.shape
    scale = scale_of(data, data.arrays.values(), log=boundary_map_log(data, log), robust=True)
    mesh = draw_cells(
        axes,
        array.values,
        np.arange(positions + 1) + 0.5,
        np.arange(blocks + 1) + 0.5,
        scale,
        sheet,
        vectors=True,
    )
    for row, column in np.argwhere(array["layer"].values == 0):
        axes.add_patch(Rectangle((column + 0.5, row + 0.5), 1.0, 1.0, **past_the_end_face(sheet)))
    axes.set_xlim(0.5, positions + 0.5)
    axes.set_ylim(blocks + 0.5, 0.5)
    axes.set_yticks(depth_ticks(blocks, [0] * blocks, room=_ROW - 0.6, apart=0.14))
    axes.set_ylabel("block", labelpad=1)
    _positions(axes, positions)
    return mesh


def _positions(axes: Axes, positions: int) -> None:
    axes.set_xticks(position_ticks(positions))
    axes.set_xlabel("position in block", labelpad=1)


def _folded(axes: Axes, run: str, data: Labelled, sheet: Sheet, *, log: bool) -> None:
    bare(axes, sheet, grid=True)
    array = data.arrays[run]
    values = boundary_axis(data, log=log)
    blocks, positions = array.shape
    x = np.asarray(array["position"].values, dtype=np.float64)
    for block in range(blocks):
        axes.plot(
            x,
            values.drawable(array.values[block]),
            color=_colour(run, array, sheet),
            linewidth=_PIXELS * line_width(block, blocks),
            linestyle=sheet.dash(run),
            marker="o" if has_position_markers(array) else None,
            markersize=MARKER * 0.7,
            markeredgewidth=0,
            gid=f"block {block + 1} {run}",
        )
        there = array["layer"].values[block] > 0
        draw_unusual(axes, x, array.values[block], there, values, _colour(run, array, sheet))
    draw_value_axis(axes, values)
    axes.set_xlim(0.6, positions + 0.4)
    _positions(axes, positions)
    axes.set_ylabel(_label(data))
    if blocks <= MOST_NUMBERED:
        ends = [(_last(array.values[block]), str(block + 1), sheet["text-muted"]) for block in range(blocks)]
        end_labels(axes, ends, height=_ROW - 0.6)


def _over_steps(axes: Axes, data: Labelled, sheet: Sheet, *, log: bool) -> str:
    """Draw a panel over steps; return what its title has to add: how many values lie beyond the axis."""
    bare(axes, sheet, grid=True)
    values = boundary_axis(data, log=log)
    last = 1
    ends = []
    found: list[Stretch] = []
    rows = rows_drawn(data)
    for run, array in data.arrays.items():
        steps = np.asarray(array["step_end"].values, dtype=np.float64)
        last = max(last, int(steps[-1]))
        colour = _colour(run, array, sheet)
        for row in rows[run]:
            axes.plot(
                steps,
                values.drawable(array.values[row]),
                color=colour,
                linewidth=_PIXELS * line_width(row, array.shape[0]),
                linestyle=sheet.dash(run),
                gid=f"{array.dims[0]} {row + 1} {run}",
            )
            found += draw_beyond(axes, steps, array.values[row], values, colour)
            draw_unusual(axes, steps, array.values[row], np.ones(steps.shape, bool), values, colour)
            ends.append((_last(values.drawable(array.values[row])), str(row + 1), colour))
    if has_reference(data):
        axes.axhline(1, color=sheet["text-muted"], linewidth=0.6, linestyle=(0, (3, 3)))
    draw_value_axis(axes, values)
    step_axis(axes, 0, last, 3)
    axes.set_ylabel("ratio" if has_reference(data) else _label(data))
    if len(ends) <= MOST_NUMBERED:
        end_labels(axes, ends, height=_ROW - 0.7)
    return ", ".join(filter(None, (beyond_words(found, values), values.note)))


def _last(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else float("nan")


def _handles(panels: Mapping[str, Labelled], sheet: Sheet) -> list[Line2D]:
    drawn = {run: array for data in panels.values() for run, array in data.arrays.items()}
    handles = run_handles(
        sheet, [run for run in sheet.order if run in drawn and not drawn[run].attrs["control"]]
    )
    handles += [
        Line2D(
            [],
            [],
            color=sheet["run-control"],
            linestyle=sheet.dash(run),
            linewidth=1.0,
            label=f"{sheet.name(run, 16)} (control)",
        )
        for run in sheet.order
        if run in drawn and drawn[run].attrs["control"]
    ]
    return handles
