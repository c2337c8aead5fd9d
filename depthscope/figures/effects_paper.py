"""Effects, drawn for paper: for each run the effects against its weights, and beside it their map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from depthscope.figures.attention_marks import block_gaps
from depthscope.figures.colours_paper import (
    MOST_CELLS,
    Scale,
    colour_bar,
    draw_cells,
    staircase,
    unreachable_face,
)
from depthscope.figures.effect_axis import EffectAxis, effect_axis
from depthscope.figures.effect_pairs import EffectPairs, effect_pairs
from depthscope.figures.effects import effect_limits, width_words
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Range
from depthscope.figures.paper import Sheet, bare, kind_handles, legend, panel_title, settled
from depthscope.figures.source_axis_paper import source_ticks
from depthscope.figures.target_axis_paper import MOST_DOTS, target_ticks
from depthscope.figures.ticks import round_ticks, short_number

_GAP = 0.8
"""Points between two blocks."""
_MAP_HEIGHT = 115.0
"""Points, about, of the rows of a map."""
_HEIGHTS: Mapping[str, float] = {"pair": 2.15, "scatter": 1.7, "map": 2.0, "bar": 0.08}
"""Inches of a row."""
_BESIDE = 0.02
"""Of a map's width, from the map to the marks of its targets."""
_MARKS: Mapping[str, tuple[str, float]] = {"plain": ("o", 2.4), "free": ("s", 4.4), "costly": ("^", 4.0)}
_WORDS = {"plain": "pair", "free": "wide, no cost seen", "costly": "narrow, costs much"}


def effects_paper(
    panels: Mapping[str, Labelled], sheet: Sheet, *, log: bool = True, scale: Range = "shared"
) -> Figure:
    """Return a scatter and a map for each run: side by side on a wide sheet, one below the other on a column.

    All runs share the axis and the colours of effects; with `scale` ``own`` each run has its own. A run without
    recorded weights has its map alone.
    """
    (data,) = panels.values()
    runs = list(data.arrays)
    arrays = list(data.arrays.values())
    against = str(data.attributes["against"])
    own = scale == "own" and len(runs) > 1
    pairs = {run: effect_pairs(array, against) for run, array in data.arrays.items()}
    every = list(pairs.values())
    vectors = sum(array.size for array in arrays) <= MOST_CELLS
    rows = _rows(pairs, wide=sheet.wide, bars=own)
    heights = [_HEIGHTS[kind] for kind, _ in rows] + ([] if own else [_HEIGHTS["bar"]])
    figure = sheet.figure(0.1 + sum(heights) + 0.42 * (len(runs) if own else 1))
    grid = figure.add_gridspec(
        len(heights),
        2 if sheet.wide else 1,
        height_ratios=heights,
        width_ratios=[1.25, 1] if sheet.wide else [1],
    )
    room = sheet.width * (0.4 if sheet.wide else 0.8)
    mesh: Any = None
    for line, (kind, run) in enumerate(rows):
        array = data.arrays[run]
        used = _scale([array] if own else arrays)
        name = sheet.name(run, sheet.letters(sheet.width / 2) - 8)
        if kind in ("pair", "scatter"):
            axes = figure.add_subplot(grid[line, 0])
            values = effect_axis([pairs[run]] if own else every, log=log)
            _scatter(axes, pairs[run], values, sheet, run, width_words([array], against))
            panel_title(axes, sheet, f"{name}, against {against}")
        if kind in ("pair", "map"):
            axes = figure.add_subplot(grid[line, -1])
            mesh = _map(axes, array, used, sheet, vectors=vectors, room=room)
            panel_title(axes, sheet, "effect" if kind == "pair" else f"{name}, effect")
        if kind == "bar":
            under = figure.add_subplot(grid[line, :])
            colour_bar(
                figure, mesh, sheet, used, [_label(), "own range"], room=sheet.width - 0.3, inside=under
            )
    if not own:
        under = figure.add_subplot(grid[-1, :])
        words = [_label(), "one range for all runs" if len(runs) > 1 else ""]
        colour_bar(figure, mesh, sheet, _scale(arrays), words, room=sheet.width - 0.3, inside=under)
    legend(figure, sheet, _handles(data, every, sheet))
    return settled(figure)


def _rows(pairs: Mapping[str, EffectPairs], *, wide: bool, bars: bool) -> list[tuple[str, str]]:
    """Return what each row of the sheet shows, and of which run: ``pair``, ``scatter``, ``map`` or ``bar``."""
    rows = []
    for run, found in pairs.items():
        both = ("pair",) if wide else ("scatter", "map")
        kinds = both if found.effect.size else ("map",)
        rows += [(kind, run) for kind in (*kinds, *(["bar"] if bars else []))]
    return rows


def _label() -> str:
    return "loss change when cut, nats a token"


def _scale(arrays: list[xr.DataArray]) -> Scale:
    limits = effect_limits(arrays)
    low, high = (-1.0, 1.0) if limits is None else (limits.low, limits.high)
    return Scale(
        low=low,
        high=high,
        log=False,
        signed=True,
        clips_low=limits is not None and limits.clips_low,
        clips_high=limits is not None and limits.clips_high,
    )


def _scatter(
    axes: Axes, pairs: EffectPairs, values: EffectAxis, sheet: Sheet, run: str, against: str
) -> None:
    bare(axes, sheet, grid=True)
    axes.axhline(0, color=sheet["chart-axis"], linewidth=0.6)
    kinds = np.array(pairs.kinds)
    colour = sheet.colour(run)
    for kind, (marker, size) in _MARKS.items():
        chosen = kinds == kind
        if not chosen.any():
            continue
        plain = kind == "plain"
        y = values.place(pairs.effect[chosen])
        half = np.nan_to_num(pairs.interval[chosen])
        low, high = values.place(pairs.effect[chosen] - half), values.place(pairs.effect[chosen] + half)
        axes.vlines(pairs.width[chosen], low, high, color=colour, linewidth=0.5, alpha=0.35 if plain else 0.9)
        axes.plot(
            pairs.width[chosen],
            y,
            linestyle="none",
            marker=marker,
            markersize=size,
            markeredgewidth=0.0 if plain else 0.8,
            markerfacecolor=colour if plain else "none" if kind == "free" else sheet["text"],
            markeredgecolor=colour if plain else sheet["text"],
            alpha=0.75 if plain else 1.0,
            gid=f"{kind} {run}",
        )
    axes.set_ylim(*values.ends)
    axes.set_yticks(values.place(values.ticks).tolist(), values.tick_text)
    ends = [0.0, float(pairs.width.min()), float(pairs.width.max())]
    room = 0.05 * (max(ends) - min(ends) or 1.0)
    axes.set_xlim(min(ends) - room, max(ends) + room)
    ticks = round_ticks(min(ends), max(ends), 3)
    axes.set_xticks(ticks, [short_number(tick).replace("-", "−") for tick in ticks])
    axes.set_xlabel(f"{against} (effect: {values.words})", labelpad=1)
    axes.set_ylabel("effect", labelpad=1)


def _map(axes: Axes, array: xr.DataArray, scale: Scale, sheet: Sheet, *, vectors: bool, room: float) -> Any:
    bare(axes, sheet, grid=False)
    targets, sources = array.shape
    edges = np.arange(sources + 1) - 0.5, np.arange(targets + 1) - 0.5
    mesh = draw_cells(axes, array.values, *edges, scale, sheet, vectors=vectors)
    staircase(axes, np.asarray(array["reachable"].values, dtype=bool), sheet, left=-0.5, top=-0.5)
    for row, width in block_gaps(array, _MAP_HEIGHT / targets, _GAP):
        axes.hlines(row - 0.5, -0.5, sources - 0.5, color=sheet["surface"], linewidth=width)
    axes.set_xlim(-0.5, sources - 0.5)
    axes.set_ylim(targets - 0.5, -0.5)
    source_ticks(axes, array, room)
    target_ticks(axes, array, sheet, True, beside=_BESIDE)
    axes.set_ylabel("target", labelpad=1)
    return mesh


def _handles(data: Labelled, pairs: list[EffectPairs], sheet: Sheet) -> list[Line2D | Patch]:
    grey = sheet["text-secondary"]
    handles: list[Line2D | Patch] = []
    for kind, (marker, size) in _MARKS.items():
        if any(kind in each.kinds for each in pairs):
            plain = kind == "plain"
            colour = grey if plain else sheet["text"]
            face = "none" if kind == "free" else colour
            pen: dict[str, Any] = {"markeredgecolor": colour, "markerfacecolor": face, "markersize": size}
            handles.append(Line2D([], [], linestyle="none", marker=marker, label=_WORDS[kind], **pen))
    arrays = list(data.arrays.values())
    small = [array for array in arrays if array.sizes["target"] <= MOST_DOTS]
    kinds = {str(kind) for array in small for kind in array["target_kind"].values} - {"other"}
    handles += kind_handles(sheet, sorted(kinds))
    if any(not array["reachable"].values.all() for array in arrays):
        handles.append(Patch(**unreachable_face(sheet), label="unreachable"))
    if any((np.isnan(array.values) & array["reachable"].values).any() for array in arrays):
        handles.append(Patch(facecolor=sheet["chart-hatch"], label="not measured"))
    return handles
