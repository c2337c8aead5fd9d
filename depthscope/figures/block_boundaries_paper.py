"""Block boundaries, drawn for paper: the state folded by position in block, and what changes at boundaries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range, axis_range
from depthscope.figures.loss_paper import step_axis
from depthscope.figures.marks_paper import end_labels
from depthscope.figures.paper import (
    LINE,
    MARKER,
    Sheet,
    bare,
    legend,
    panel_title,
    run_handles,
    value_ticks,
)
from depthscope.figures.ticks import layer_ticks, short_number

_ROW = 1.5
_TITLES = {"sums": "State at block ends", "reset": "Reset / construction", "read": "Read change"}
_LABELS = 8
"""Lines of a panel that get their number at the end."""


def block_boundaries_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = True, scale: Range = "shared"
) -> Figure:
    """Return a folded profile for each run, then the panels over steps; a control is grey."""
    folded = panels.get("folded")
    others = {name: data for name, data in panels.items() if name != "folded"}
    cells = [] if folded is None else list(folded.arrays)
    across = 3 if sheet.wide else 2
    count = len(cells) + len(others)
    across = min(across, count)
    down = -(-count // across)
    figure = sheet.figure(0.1 + _ROW * down)
    grid = figure.subplots(down, across, squeeze=False)
    places = iter(grid.flat)
    letters = iter("abcdefghijklmnopqrstuvwxyz" if 2 <= count <= 26 else "")
    room = sheet.width / across - 0.45
    for place, run in enumerate(cells):
        assert folded is not None
        axes = next(places)
        control = " (control)" if folded.arrays[run].attrs["control"] else ""
        _folded(axes, run, folded, sheet, log=log)
        if place % across:
            axes.set_ylabel("")
        panel_title(axes, sheet, f"{sheet.name(run, 22)}{control}", next(letters, ""), room=room)
    for data in others.values():
        axes = next(places)
        _over_steps(axes, data, sheet, log=log)
        panel_title(axes, sheet, _TITLES[data.attributes["show"]], next(letters, ""), room=room)
    for axes in places:
        axes.set_visible(False)
    legend(figure, sheet, _handles(panels, sheet))
    return figure


def _colour(run: str, array: xr.DataArray, sheet: Sheet) -> str:
    return sheet["text-muted"] if array.attrs["control"] else sheet.colour(run)


def _alpha(place: int, count: int) -> float:
    """Return how strongly line `place` is drawn: the later in depth, the stronger."""
    return 1.0 if count < 2 else 0.35 + 0.65 * place / (count - 1)


def _folded(axes: Axes, run: str, data: Labelled, sheet: Sheet, *, log: bool) -> None:
    bare(axes, sheet, grid=True)
    array = data.arrays[run]
    blocks, positions = array.shape
    for block in range(blocks):
        axes.plot(
            array["position"].values,
            array.values[block],
            color=_colour(run, array, sheet),
            alpha=_alpha(block, blocks),
            linewidth=LINE,
            linestyle=sheet.dash(run),
            marker="o" if positions <= 12 else None,
            markersize=MARKER * 0.8,
            markeredgewidth=0,
            gid=f"block {block + 1} {run}",
        )
    _values(axes, list(data.arrays.values()), log=log and not data.attributes["signed"], sheet=sheet)
    axes.set_xlim(0.6, positions + 0.4)
    axes.set_xticks(
        list(range(1, positions + 1)) if positions <= 8 else layer_ticks(positions, [0] * positions)
    )
    axes.set_xlabel("position in block", labelpad=1)
    axes.set_ylabel(str(data.attributes["note"]).replace(", activation", " of the state"))
    if blocks <= _LABELS:
        ends = [(_last(array.values[block]), str(block + 1), sheet["text-muted"]) for block in range(blocks)]
        end_labels(axes, ends, height=_ROW - 0.6)


def _over_steps(axes: Axes, data: Labelled, sheet: Sheet, *, log: bool) -> None:
    bare(axes, sheet, grid=True)
    last = 1
    ends = []
    lines = sum(array.shape[0] for array in data.arrays.values())
    for run, array in data.arrays.items():
        steps = array["step_end"].values
        last = max(last, int(steps[-1]))
        for row in range(array.shape[0]):
            axes.plot(
                steps,
                array.values[row],
                color=_colour(run, array, sheet),
                alpha=_alpha(row, array.shape[0]),
                linewidth=0.8,
                linestyle=sheet.dash(run),
                gid=f"{array.dims[0]} {row + 1} {run}",
            )
            ends.append((_last(array.values[row]), str(row + 1), _colour(run, array, sheet)))
    if data.attributes["show"] in ("reset", "read"):
        axes.axhline(1, color=sheet["text-muted"], linewidth=0.6, linestyle=(0, (3, 3)))
    _values(axes, list(data.arrays.values()), log=log, sheet=sheet)
    step_axis(axes, 0, last, 3)
    axes.set_ylabel({"sums": "rms of bₙ", "reset": "ratio", "read": "ratio"}[data.attributes["show"]])
    if lines <= _LABELS:
        end_labels(axes, ends, height=_ROW - 0.7)


def _last(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else float("nan")


def _values(axes: Axes, arrays: list[xr.DataArray], *, log: bool, sheet: Sheet) -> None:
    low, high = axis_range(None, arrays, log=log, signed=True)
    if log:
        axes.set_yscale("log")
        axes.set_ylim(10**low, 10**high)
        axes.minorticks_off()
    else:
        axes.set_ylim(low, high)
    ticks = value_ticks(low, high, log=log)
    axes.set_yticks(ticks, [short_number(tick).replace("-", "−") for tick in ticks])


def _handles(panels: Mapping[str, Labelled], sheet: Sheet) -> list[Line2D]:
    drawn = {run: array for data in panels.values() for run, array in data.arrays.items()}
    handles = run_handles(
        sheet, [run for run in sheet.order if run in drawn and not drawn[run].attrs["control"]]
    )
    handles += [
        Line2D(
            [],
            [],
            color=sheet["text-muted"],
            linestyle=sheet.dash(run),
            linewidth=LINE,
            label=f"{sheet.name(run, 16)} (control)",
        )
        for run in sheet.order
        if run in drawn and drawn[run].attrs["control"]
    ]
    return handles
