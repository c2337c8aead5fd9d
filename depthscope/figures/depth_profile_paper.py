"""Depth profile, drawn for paper: the panels of the paper's Figure 5, or any quantities over sublayers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from depthscope.figures.bands import banded_run, blocks_along, runs_words
from depthscope.figures.depth_profile import NO_STEP, profile_axis
from depthscope.figures.labelled import Labelled
from depthscope.figures.loss_paper import draw_loss
from depthscope.figures.marks_paper import draw_unusual, draw_value_axis, end_labels
from depthscope.figures.names import shortened
from depthscope.figures.paper import (
    LINE,
    MARKER,
    Sheet,
    bare,
    depth_ticks,
    kind_handles,
    legend,
    panel_title,
    run_handles,
)
from depthscope.figures.shown import comparison
from depthscope.figures.ticks import short_number
from depthscope.figures.value_axis import ValueAxis

PANEL = 1.45
"""Inches, of a panel on a column, its title and labels included."""
PIN = 0.6
"""Opacity of pinned steps' lines."""
_LEAST_ROOM = 3.6
"""Points a sublayer, under which markers are left out."""


def depth_profile_paper(panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = True) -> Figure:
    """Return the panels, profiles or losses, side by side on a wide sheet and one above the other on a column."""
    across = min(len(panels), 3) if sheet.wide else 1
    down = -(-len(panels) // across)
    figure = sheet.figure(0.1 + down * (1.85 if sheet.wide else PANEL))
    grid = figure.subplots(down, across, squeeze=False)
    letters = "abcdefghijkl" if len(panels) > 1 else ""
    profiles = [data for data in panels.values() if "mode" in data.attributes]
    for place, (axes, data) in enumerate(zip(grid.flat, panels.values(), strict=False)):
        if "mode" in data.attributes:
            draw_profile(axes, data, sheet, log=log, room=sheet.width / across - 0.6)
            more = profile_axis(data, log=log).note
        else:
            more = draw_loss(axes, data, sheet)
        title = ", ".join(filter(None, (data.attributes["title"], against(data), more)))
        panel_title(axes, sheet, title, letters[place : place + 1], room=sheet.width / across - 0.5)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    legend(figure, sheet, _handles(panels, profiles, sheet, sheet.width / across - 0.6))
    return figure


def draw_profile(axes: Axes, data: Labelled, sheet: Sheet, *, log: bool, room: float) -> None:
    """Draw `depth_profile_data`: lines are runs, markers tell attention from MLP, bands are residual blocks."""
    values = profile_axis(data, log=log)
    bare(axes, sheet, grid=True)
    sizes = {array.sizes["layer"] for array in data.arrays.values()}
    normalised = len(sizes) > 1
    for run, array in data.arrays.items():
        x = _places(array, normalised)
        for moment in range(array.sizes["moment"] - 1, -1, -1):
            _line(axes, run, array, moment, x, sheet, values, marked=has_markers(array, room))
        if int(array["step"].values[0]) != NO_STEP:
            draw_unusual(
                axes, x, array.values[0], np.asarray(array["reachable"].values), values, sheet.colour(run)
            )
    for text, reference in data.references.items():
        axes.plot(
            _places(reference, normalised),
            reference.values,
            color=sheet["text-muted"],
            linestyle=(0, (3, 3)),
            linewidth=0.7,
            gid=f"reference {text}",
        )
    if data.attributes["mode"] == "difference":
        axes.axhline(0, color=sheet["chart-axis"], linewidth=0.6, zorder=1)
    draw_value_axis(axes, values)
    axes.set_ylabel(_value_label(data))
    end_labels(axes, _pin_labels(data, sheet), height=PANEL - 0.45)
    _depth_axis(axes, data, sheet, normalised, room)


def _pin_labels(data: Labelled, sheet: Sheet) -> list[tuple[float, str, str]]:
    """Return a label for the end of each pinned step's line: its last value, ``at 100``, the run's colour."""
    labels = []
    for run, array in data.arrays.items():
        for moment in range(1, array.sizes["moment"]):
            step, values = int(array["step"].values[moment]), array.values[moment]
            finite = values[np.isfinite(values)]
            if step != NO_STEP and finite.size:
                labels.append((float(finite[-1]), f"at {short_number(step)}", sheet.colour(run)))
    return labels


def has_markers(array: xr.DataArray, room: float) -> bool:
    """Return whether `room` inches leave each sublayer enough for a marker."""
    return 72 * room / array.sizes["layer"] >= _LEAST_ROOM


def _places(array: xr.DataArray, normalised: bool) -> npt.NDArray[np.float64]:
    layer = np.asarray(array["layer"].values, dtype=np.float64)
    return (layer - 0.5) / layer.size if normalised else layer


def _line(
    axes: Axes,
    run: str,
    array: xr.DataArray,
    moment: int,
    x: npt.NDArray[np.float64],
    sheet: Sheet,
    values: ValueAxis,
    *,
    marked: bool,
) -> None:
    drawn = values.drawable(array.values[moment])
    step = int(array["step"].values[moment])
    colour = sheet.colour(run)
    if moment:
        if step != NO_STEP:
            axes.plot(x, drawn, color=colour, alpha=PIN, linewidth=0.7, gid=f"pin {step} {run}")
        return
    axes.plot(x, drawn, color=colour, linestyle=sheet.dash(run), linewidth=LINE, gid=f"line {run}")
    if not marked:
        return
    layer_kinds = array["layer_kind"].values
    for kind in ("attention", "mlp", "other"):
        chosen = layer_kinds == kind
        axes.plot(
            x[chosen],
            drawn[chosen],
            linestyle="none",
            marker="s" if kind == "other" else "o",
            markersize=MARKER,
            markeredgewidth=0.7,
            markeredgecolor=colour,
            markerfacecolor=sheet["surface"] if kind == "mlp" else colour,
        )


def against(data: Labelled) -> str:
    """Return how a difference compares with its baseline, ``log₂ ratio to a``; nothing in another mode."""
    if data.attributes.get("mode") != "difference":
        return ""
    name = shortened(data.names.get(data.attributes["baseline"], "the baseline"), 26)
    return comparison(data.attributes["quantity"], name)


def _value_label(data: Labelled) -> str:
    """Return the label of a value axis; the title names the baseline, for which a panel's height has no room."""
    told = against(data)
    return told.partition(" to ")[0] if told else str(data.attributes["note"])


def _depth_axis(axes: Axes, data: Labelled, sheet: Sheet, normalised: bool, room: float) -> None:
    banded = banded_run(data)
    for _, left, right in [] if banded is None else blocks_along(banded, normalised)[1::2]:
        axes.axvspan(left, right, facecolor=sheet["text"], alpha=0.06, linewidth=0, zorder=0)
    if normalised:
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_xlabel("depth, share of the sublayers", labelpad=1)
        return
    one = banded if banded is not None else next(iter(data.arrays.values()))
    layers = one.sizes["layer"]
    axes.set_xlim(0.5, layers + 0.5)
    axes.set_xticks(depth_ticks(layers, one["residual_block"].values.tolist(), room=room, apart=0.24))
    axes.set_xlabel("sublayer", labelpad=1)


def _handles(
    panels: Mapping[str, Labelled], profiles: list[Labelled], sheet: Sheet, room: float
) -> list[Line2D]:
    drawn = [run for run in sheet.order if any(run in data.arrays for data in panels.values())]
    arrays = {run: array for data in profiles for run, array in data.arrays.items()}
    marked = [run for run in drawn if run in arrays and has_markers(arrays[run], room)]
    layer_kinds = {str(kind) for run in marked for kind in arrays[run]["layer_kind"].values}
    handles = run_handles(sheet, drawn)
    for text in dict.fromkeys(text for data in profiles for text in data.references):
        handles.append(
            Line2D(
                [],
                [],
                color=sheet["text-muted"],
                linestyle=(0, (3, 3)),
                linewidth=0.7,
                label=f"reference {text}",
            )
        )
    all_marked = len(marked) in (0, len(arrays))
    whose = "" if all_marked else f" of {runs_words([sheet.name(run) for run in marked])}"
    if len(whose) > sheet.letters(sheet.width - 0.6) - len(
        "other sublayer"
    ):  # only the depth of a run decides
        whose = f" (up to {max(arrays[run].sizes['layer'] for run in marked)} sublayers)"
    kinds_drawn = kind_handles(sheet, sorted(layer_kinds))
    for handle in kinds_drawn:
        handle.set_label(f"{handle.get_label()}{whose}")
    return handles + kinds_drawn
