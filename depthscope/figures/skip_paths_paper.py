"""Skip paths, drawn for paper: arcs over the depth axis, one run above the axis and the next below."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from depthscope.figures.arc_labels_paper import Arc, label_arcs
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.paper import Sheet, bare, kind_handles, legend
from depthscope.figures.ticks import layer_ticks

_WIDEST = 3.6
"""Points, of a path of weight 1/2 and above, where sublayers lie far enough apart."""
_THINNEST = 1.6
_SHARES: Mapping[float, str] = {0.25: "0.25", 0.5: "0.5", 0.75: "0.75"}
_SIDE = 1.05
"""Inches, of a run's side of an axis."""
_REACH = 1.18
"""How far a side reaches in units of the axis; the highest arc's control points lie at 0.78."""
_LINE = 0.14
"""Inches, of a further line of a run's title."""
_LONGEST_NAME = 40
_DOT = 2.6
_LEAST_DOT = 1.4
"""Points of a sublayer's dot below which none are drawn."""


def skip_paths_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = False, scale: Range = "shared"
) -> Figure:
    """Return arcs from source to target, their width the weight; two runs share an axis, one on each side.

    Runs of different depth on one axis share it from the embedding to the output.
    """
    (data,) = panels.values()
    runs = list(data.arrays)
    pairs = [runs[place : place + 2] for place in range(0, len(runs), 2)]
    heights = [
        0.5 + sum(_SIDE + _LINE * _title(run, data, sheet).count("\n") for run in pair) for pair in pairs
    ]
    figure = sheet.figure(0.05 + sum(heights))
    grid = figure.subplots(len(pairs), 1, squeeze=False, height_ratios=heights)
    widest = _widest(data, sheet)
    drawn = [_pair(axes, pair, data, sheet, widest) for axes, pair in zip(grid[:, 0], pairs, strict=True)]
    legend(figure, sheet, _handles(data, sheet, widest))
    figure.draw_without_rendering()  # labels are placed where arcs and names lie in the end
    for axes, (sides, names) in zip(grid[:, 0], drawn, strict=True):
        for arcs in sides:
            names += label_arcs(axes, arcs, names, sheet)
    return figure


def _widest(data: Labelled, sheet: Sheet) -> float:
    """Return the width of the heaviest arcs: those of neighbouring sublayers must not run into one."""
    layers = max(int(array.attrs["layers"]) for array in data.arrays.values())
    return min(_WIDEST, max(_THINNEST, 1.2 * _apart(layers, sheet)))


def _apart(layers: int, sheet: Sheet) -> float:
    """Return about how many points lie between two sublayers."""
    return 72 * (sheet.width - 0.2) / (layers + 2.6)


def line_width(weight: float, widest: float = _WIDEST) -> float:
    """Return the width of an arc in points."""
    return widest * min(weight, 0.5) / 0.5


def _pair(
    axes: Axes, runs: list[str], data: Labelled, sheet: Sheet, widest: float
) -> tuple[list[list[Arc]], list[Text]]:
    """Draw one or two runs; return the arcs of each side, heaviest first, and the texts that are there already."""
    bare(axes, sheet, grid=False)
    depths = [int(data.arrays[run].attrs["layers"]) for run in runs]
    layers = depths[0] if len(set(depths)) == 1 else 0
    end = layers + 1 if layers else 1
    axes.set_xlim(-0.8 / 25 * end, end + 0.8 / 25 * end)
    titles = [_title(run, data, sheet) for run in runs]
    reaches = [_REACH * (1 + title.count("\n") * _LINE / _SIDE) for title in titles]
    axes.set_ylim(-reaches[1] if len(runs) == 2 else -0.1, reaches[0])
    axes.axhline(0, color=sheet["chart-axis"], linewidth=0.6, zorder=1)
    sides, names = [], []
    for run, title, depth, side in zip(runs, titles, depths, (1, -1), strict=False):
        array = data.arrays[run]
        arcs = _arcs(array, side, end / (depth + 1), widest)
        for place in reversed(range(len(arcs))):  # the lightest first
            gid = f"path {int(array['source_layer'].values[place])} {int(array['target'].values[place])}"
            dashed = bool(array["weight_only"].values[place])
            axes.add_patch(arcs[place].patch(sheet.colour(run), dashed=dashed, gid=gid))
        sides.append(arcs)
        names.append(
            axes.text(
                0.0,
                1.0 if side > 0 else 0.0,
                title,
                transform=axes.transAxes,
                ha="left",
                va="top" if side > 0 else "bottom",
                color=sheet["text"],
                linespacing=1.1,
                in_layout=False,  # a title has the axes' width and never sets it
            )
        )
    if _has_dots(layers, sheet):
        _dots(axes, data.arrays[runs[0]], sheet)
    _depth_axis(axes, sheet, layers, [list(data.arrays[run].attrs["residual_block"]) for run in runs])
    return sides, names


def _title(run: str, data: Labelled, sheet: Sheet) -> str:
    """Say whose arcs these are and how many, in as many lines as the axes' width asks for."""
    room = sheet.letters(sheet.width - 0.1)
    text = f"{sheet.name(run, min(room, _LONGEST_NAME))}: {_count(data.arrays[run])}"
    return textwrap.fill(text, room, break_on_hyphens=False)


def _count(array: xr.DataArray) -> str:
    """Say how many paths there are, and in what their distances count: ``6 of 9 skip paths, distances in blocks``."""
    found, shown = int(array.attrs["found"]), array.sizes["path"]
    if not found:
        return "no skip path"
    head = f"{shown} of {found}" if shown < found else str(found)
    unit = f", distance in {array['distance_unit'].values[0]}s" if shown else ""
    return f"{head} skip path{'s' * (found != 1)}{unit}"


def _arcs(array: xr.DataArray, side: int, scale: float, widest: float) -> list[Arc]:
    """Return the arcs of a run, heaviest first, on an axis with `scale` a sublayer; the longest is the highest."""
    sources = np.asarray(array["source_layer"].values, dtype=np.float64)
    targets = np.asarray(array["target"].values, dtype=np.float64)
    longest = max(float((targets - sources).max()), 1.0) if array.sizes["path"] else 1.0
    return [
        Arc(
            left=float(source) * scale,
            right=float(target) * scale,
            height=side * 0.78 * float((target - source) / longest) ** 0.7,
            width=line_width(float(weight), widest),
            text=_short(float(weight)) + (f" ({_short(float(held))})" if np.isfinite(held) else ""),
        )
        for source, target, weight, held in zip(
            sources, targets, array.values, array["contribution"].values, strict=True
        )
    ]


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _depth_axis(axes: Axes, sheet: Sheet, layers: int, blocks: list[list[int]]) -> None:
    """Label the ends and, of runs of one depth, the block ends or round sublayers between them."""
    pattern = next((block for block in blocks if len(set(block)) > 1), [0] * layers)
    wanted = {tick: str(tick) for tick in layer_ticks(layers, pattern)} if layers else _SHARES
    end = layers + 1 if layers else 1
    letter = end / sheet.letters(sheet.width - 0.2)
    # The names of both ends reach inwards.
    kept = {tick: text for tick, text in wanted.items() if 12 * letter < tick < end - 9 * letter}
    axes.set_yticks([])
    axes.set_xticks([0, *kept, end], ["embedding", *kept.values(), "output"])
    axes.set_xlabel("sublayer" if layers else "depth, share of the sublayers", labelpad=1)
    _inwards(axes)


def _inwards(axes: Axes) -> None:
    """Let the names of both ends reach inwards, so that they take no room beside the axis."""
    labels = axes.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")


def _has_dots(layers: int, sheet: Sheet) -> bool:
    return layers > 0 and 0.55 * _apart(layers, sheet) >= _LEAST_DOT


def _dots(axes: Axes, array: xr.DataArray, sheet: Sheet) -> None:
    kinds = np.asarray(array.attrs["layer_kind"])
    grey = sheet["text-secondary"]
    for kind, face in (("attention", grey), ("mlp", sheet["surface"])):
        chosen = np.flatnonzero(kinds == kind) + 1
        axes.plot(
            chosen,
            np.zeros(chosen.size),
            linestyle="none",
            marker="o",
            markersize=min(_DOT, 0.55 * _apart(len(kinds), sheet)),
            markeredgewidth=0.5,
            markeredgecolor=grey,
            markerfacecolor=face,
            zorder=4,
        )


def _handles(data: Labelled, sheet: Sheet, widest: float) -> list[Line2D]:
    runs = list(data.arrays.values())
    grey = sheet["text-secondary"]
    handles = [
        Line2D([], [], color=grey, linewidth=line_width(weight, widest), label=f"weight {weight}")
        for weight in (0.1, 0.5)
    ]
    if any(bool(array["weight_only"].values.any()) for array in runs):
        handles.append(Line2D([], [], color=grey, linewidth=1.4, linestyle=(0, (2, 1)), label="weight only"))
    pairs = [
        [int(array.attrs["layers"]) for array in runs[place : place + 2]] for place in range(0, len(runs), 2)
    ]
    dotted = [place for place, pair in enumerate(pairs) if len(set(pair)) == 1 and _has_dots(pair[0], sheet)]
    kinds = {str(kind) for place in dotted for kind in runs[2 * place].attrs["layer_kind"]}
    return handles + kind_handles(sheet, sorted(kinds))
