"""Skip paths, drawn for paper: arcs over the depth axis, one run above the axis and the next below."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.paper import TEXT, Sheet, bare, kind_handles, legend
from depthscope.figures.ticks import layer_ticks

_WIDEST = 3.6
"""Points, of a path of weight 1/2 and above."""
_ROUND = 0.5523
"""How far the control points of a quarter of an ellipse lie out."""


def skip_paths_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = False, scale: Range = "shared"
) -> Figure:
    """Return arcs from source to target, their width the weight; two runs share an axis, one on each side."""
    (data,) = panels.values()
    runs = list(data.arrays)
    pairs = [runs[place : place + 2] for place in range(0, len(runs), 2)]
    heights = [0.5 + 1.05 * len(pair) for pair in pairs]
    figure = sheet.figure(0.05 + sum(heights))
    grid = figure.subplots(len(pairs), 1, squeeze=False, height_ratios=heights)
    for axes, pair in zip(grid[:, 0], pairs, strict=True):
        _pair(axes, pair, data, sheet)
    legend(figure, sheet, _handles(data, sheet))
    return figure


def line_width(weight: float) -> float:
    """Return the width of an arc in points."""
    return _WIDEST * min(weight, 0.5) / 0.5


def _pair(axes: Axes, runs: list[str], data: Labelled, sheet: Sheet) -> None:
    bare(axes, sheet, grid=False)
    layers = max(int(data.arrays[run].attrs["layers"]) for run in runs)
    axes.set_xlim(-0.8, layers + 1.8)
    low = -1.18 if len(runs) == 2 else -0.1
    axes.set_ylim(low, 1.18)
    axes.axhline(0, color=sheet["chart-axis"], linewidth=0.6, zorder=1)
    taken: list[tuple[float, float, float]] = []
    for run, side in zip(runs, (1, -1), strict=False):
        array = data.arrays[run]
        _arcs(axes, array, side, layers, sheet.colour(run), sheet, taken)
        found, shown = int(array.attrs["found"]), array.sizes["path"]
        words = (
            f"{shown} of {found} skip paths" if shown < found else f"{found} skip path{'s' * (found != 1)}"
        )
        axes.text(
            0.0,
            1.0 if side > 0 else 0.0,
            f"{sheet.name(run)}: {words}",
            transform=axes.transAxes,
            ha="left",
            va="top" if side > 0 else "bottom",
            color=sheet["text"],
        )
    _dots(axes, data.arrays[runs[0]], layers, sheet)
    blocks = [list(data.arrays[run].attrs["residual_block"]) for run in runs]
    pattern = next((block for block in blocks if len(set(block)) > 1 and len(block) == layers), [0] * layers)
    ticks = [tick for tick in layer_ticks(layers, pattern) if 2 < tick < layers - 1]
    axes.set_yticks([])
    axes.set_xticks([0, *ticks, layers + 1], ["emb", *map(str, ticks), "out"])
    axes.set_xlabel("sublayer", labelpad=1)


def _arcs(
    axes: Axes,
    array: xr.DataArray,
    side: int,
    layers: int,
    colour: str,
    sheet: Sheet,
    taken: list[tuple[float, float, float]],
) -> None:
    """Draw the lightest path first and write weight and contribution over the heaviest ones that have room."""
    sources = np.asarray(array["source_layer"].values, dtype=np.float64)
    targets = np.asarray(array["target"].values, dtype=np.float64)
    weights, held = np.asarray(array.values), np.asarray(array["contribution"].values)
    longest = max(float((targets - sources).max()), 1.0) if array.sizes["path"] else 1.0
    for path in range(array.sizes["path"] - 1, -1, -1):
        height = side * 0.78 * ((targets[path] - sources[path]) / longest) ** 0.7
        axes.add_patch(
            PathPatch(
                _arc(sources[path], targets[path], height),
                facecolor="none",
                edgecolor=colour,
                linewidth=line_width(float(weights[path])),
                alpha=0.75,
                linestyle=(0, (2, 1)) if bool(array["weight_only"].values[path]) else "solid",
                capstyle="butt",
                gid=f"path {int(sources[path])} {int(targets[path])}",
            )
        )
    letter = (layers + 2.6) * TEXT * 0.6 / (72 * (sheet.width - 0.2))
    for path in range(array.sizes["path"]):
        x = (sources[path] + targets[path]) / 2
        y = side * 0.78 * ((targets[path] - sources[path]) / longest) ** 0.7
        text = _short(float(weights[path]))
        if np.isfinite(held[path]):
            text += f" ({_short(float(held[path]))})"
        across = letter * len(text)
        if any(abs(x - other) < (across + width) / 2 and abs(y - up) < 0.2 for other, up, width in taken):
            continue
        taken.append((x, y, across))
        axes.annotate(
            text,
            (x, y),
            (0, side * (line_width(float(weights[path])) / 2 + 1)),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
            color=sheet["text-secondary"],
            bbox={"facecolor": sheet["surface"], "linewidth": 0, "pad": 0.4, "alpha": 0.85},
            zorder=5,
        )


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _arc(left: float, right: float, height: float) -> Path:
    """Return half an ellipse from `left` to `right` on the axis, `height` high (below where negative)."""
    middle, half = (left + right) / 2, (right - left) / 2
    points = [
        (left, 0.0),
        (left, height * _ROUND),
        (middle - half * _ROUND, height),
        (middle, height),
        (middle + half * _ROUND, height),
        (right, height * _ROUND),
        (right, 0.0),
    ]
    return Path(points, [Path.MOVETO, *[Path.CURVE4] * 6])


def _dots(axes: Axes, array: xr.DataArray, layers: int, sheet: Sheet) -> None:
    kinds = np.asarray(array.attrs["layer_kind"])
    size = min(2.6, 72 * (sheet.width - 0.2) / (layers + 3) * 0.55)
    grey = sheet["text-secondary"]
    for kind, face in (("attention", grey), ("mlp", sheet["surface"])):
        chosen = np.flatnonzero(kinds == kind) + 1
        axes.plot(
            chosen,
            np.zeros(chosen.size),
            linestyle="none",
            marker="o",
            markersize=size,
            markeredgewidth=0.5,
            markeredgecolor=grey,
            markerfacecolor=face,
            zorder=4,
        )


def _handles(data: Labelled, sheet: Sheet) -> list[Line2D]:
    arrays = list(data.arrays.values())
    kinds = {str(kind) for array in arrays for kind in array.attrs["layer_kind"]}
    grey = sheet["text-secondary"]
    handles = [
        Line2D([], [], color=grey, linewidth=line_width(weight), label=f"weight {weight}")
        for weight in (0.1, 0.5)
    ]
    if any(bool(array["weight_only"].values.any()) for array in arrays):
        handles.append(Line2D([], [], color=grey, linewidth=1.4, linestyle=(0, (2, 1)), label="weight only"))
    return handles + kind_handles(sheet, sorted(kinds))
