"""Outer state, drawn for paper: energies, write ratio, gates and extra dimensions by block."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.marks_paper import end_labels
from depthscope.figures.outer_marks import MARKS, block_ticks, marked_every
from depthscope.figures.paper import (
    LINE,
    MARKER,
    Sheet,
    bare,
    legend,
    panel_title,
    run_handles,
)
from depthscope.figures.ticks import round_ticks, short_number

_ROW = 1.2

PANELS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Carry against write": ("activation²", ("energy", "carry", "write")),
    "Outer write over carry": ("ratio, cosine", ("write_ratio", "write_cosine")),
    "Gates": ("σ(α)", ("gate_read", "gate_write", "gate_read_initial", "gate_write_initial")),
    "Share of energy in extra dimensions": ("share", ("extra_share",)),
}
"""Title to (value axis, values)."""


def outer_state_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = False, scale: Range = "shared"
) -> Figure:
    """Return the panels, one below the other on a column, two in a row on a wide sheet.

    Colours and dashes are runs; marks are values, named beside the first run's lines.
    """
    (data,) = panels.values()
    held = {
        title: entry
        for title, entry in PANELS.items()
        if any(np.isfinite(_values(array, name)).any() for array in data.arrays.values() for name in entry[1])
    }
    across = min(len(held), 2 if sheet.wide else 1)
    down = -(-len(held) // across)
    figure = sheet.figure(0.2 + _ROW * down)
    grid = figure.subplots(down, across, squeeze=False)
    for place, (axes, (title, (unit, series))) in enumerate(zip(grid.flat, held.items(), strict=False)):
        _panel(axes, data, series, sheet)
        axes.set_ylabel(unit)
        if place + across < len(held):
            axes.set_xlabel("")
        panel_title(axes, sheet, title, "abcd"[place], room=sheet.width / across - 0.4)
    for axes in grid.flat[len(held) :]:
        axes.set_visible(False)
    legend(figure, sheet, run_handles(sheet, list(data.arrays)))
    return figure


def _values(array: xr.DataArray, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(array.sel(value=name).values, dtype=np.float64)


def _panel(axes: Axes, data: Labelled, series: tuple[str, ...], sheet: Sheet) -> None:
    bare(axes, sheet, grid=True)
    reached = [0.0]
    most = 1
    ends: dict[str, tuple[float, str, str]] = {}
    for run, array in data.arrays.items():
        blocks = np.asarray(array["block"].values)
        most = max(most, int(blocks[-1]))
        for name in series:
            mark = MARKS[name]
            values = _values(array, name)
            finite = [float(value) for value in values[np.isfinite(values)]]
            reached += finite
            initial = name.endswith("_initial")
            if len(series) > 1 and finite:
                ends.setdefault(mark.label, (finite[-1], mark.label, sheet["text-secondary"]))
            axes.plot(
                blocks,
                values,
                color=sheet["text-muted"] if initial else sheet.colour(run),
                linestyle="none" if initial else sheet.dash(run),
                linewidth=LINE,
                marker=mark.paper,
                markersize=7 if initial else MARKER,
                markeredgewidth=0.8,
                markerfacecolor=sheet.colour(run) if mark.filled else sheet["surface"],
                markevery=marked_every(blocks.size),
                gid=f"{name} {run}",
            )
    low, high = min(reached), max(reached)
    room = 0.1 * ((high - low) or 1.0)
    low, high = (low - room if low < 0 else 0.0), high + room
    axes.set_ylim(low, high)
    ticks = round_ticks(low, high, 3)
    axes.set_yticks(ticks, [short_number(tick).replace("-", "−") for tick in ticks])
    axes.set_xlim(0.8, most + 0.2)
    axes.set_xticks(block_ticks(most))
    axes.set_xlabel("block", labelpad=1)
    end_labels(axes, list(ends.values()), height=_ROW - 0.45)
