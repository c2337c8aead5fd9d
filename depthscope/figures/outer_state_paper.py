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
from depthscope.figures.paper import (
    LINE,
    MARKER,
    Sheet,
    bare,
    legend,
    panel_title,
    run_handles,
)
from depthscope.figures.ticks import layer_ticks, round_ticks, short_number

_ROW = 1.2

PANELS: Mapping[str, tuple[str, tuple[tuple[str, str, str, bool], ...]]] = {
    "Energy before the norm": (
        "activation²",
        (
            ("energy", "● energy", "o", True),
            ("carry", "□ carry", "s", False),
            ("write", "△ write", "^", False),
        ),
    ),
    "Outer write against carry": (
        "ratio, cosine",
        (("write_ratio", "◆ ratio", "D", True), ("write_cosine", "◇ cosine", "D", False)),
    ),
    "Interface gates": (
        "σ(α)",
        (
            ("gate_read", "▼ read", "v", True),
            ("gate_write", "▽ write", "v", False),
            ("gate_read_initial", "– at start", "_", True),
            ("gate_write_initial", "– at start", "_", True),
        ),
    ),
    "Share of energy in extra dimensions": ("share", (("extra_share", "", "P", True),)),
}
"""Title to (value axis, (value, label with its mark, marker, filled))."""


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
        if any(
            np.isfinite(_values(array, name)).any() for array in data.arrays.values() for name, *_ in entry[1]
        )
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


def _panel(axes: Axes, data: Labelled, series: tuple[tuple[str, str, str, bool], ...], sheet: Sheet) -> None:
    bare(axes, sheet, grid=True)
    reached = [0.0]
    most = 1
    ends: dict[str, tuple[float, str, str]] = {}
    for run, array in data.arrays.items():
        blocks = np.asarray(array["block"].values)
        most = max(most, int(blocks[-1]))
        for name, label, marker, filled in series:
            values = _values(array, name)
            finite = [float(value) for value in values[np.isfinite(values)]]
            reached += finite
            initial = name.endswith("_initial")
            if label and finite:
                ends.setdefault(label, (finite[-1], label, sheet["text-secondary"]))
            axes.plot(
                blocks,
                values,
                color=sheet["text-muted"] if initial else sheet.colour(run),
                linestyle="none" if initial else sheet.dash(run),
                linewidth=LINE,
                marker=marker,
                markersize=7 if initial else MARKER,
                markeredgewidth=0.8,
                markerfacecolor=sheet.colour(run) if filled else sheet["surface"],
                gid=f"{name} {run}",
            )
    low, high = min(reached), max(reached)
    room = 0.1 * ((high - low) or 1.0)
    low, high = (low - room if low < 0 else 0.0), high + room
    axes.set_ylim(low, high)
    ticks = round_ticks(low, high, 3)
    axes.set_yticks(ticks, [short_number(tick).replace("-", "−") for tick in ticks])
    axes.set_xlim(0.8, most + 0.2)
    axes.set_xticks(list(range(1, most + 1)) if most <= 8 else layer_ticks(most, [0] * most))
    axes.set_xlabel("block", labelpad=1)
    end_labels(axes, list(ends.values()), height=_ROW - 0.45)
