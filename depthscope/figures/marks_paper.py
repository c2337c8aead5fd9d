"""Marks that several paper figures write: value axes, where lines leave them, and labels at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from depthscope.figures.beyond import EDGES, Stretch, stretches
from depthscope.figures.paper import TEXT
from depthscope.figures.unusual import SYMBOLS, kinds
from depthscope.figures.value_axis import ValueAxis

_MARKS = {"x-thin": "x", "triangle-up": "^", "triangle-down": "v", "line-ns": "|"}


def draw_value_axis(axes: Axes, values: ValueAxis) -> None:
    """Give `axes` the scale, the range and the ticks of a value axis."""
    if values.log:
        axes.set_yscale("log")
        axes.minorticks_off()
    axes.set_ylim(*values.ends)
    axes.set_yticks(values.ticks, values.tick_text)


def draw_beyond(
    axes: Axes,
    x: npt.NDArray[np.float64],
    line: npt.NDArray[np.float64],
    values: ValueAxis,
    colour: str,
) -> list[Stretch]:
    """Mark where a line leaves the axis, and return the stretches that do."""
    found = stretches(line, values)
    for stretch in found:
        axes.plot(
            x[stretch.place],
            EDGES[stretch.edge][1],
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="^" if stretch.edge == "above" else "v",
            markersize=3.6,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=0.7,
            clip_on=False,
            gid=f"mark {stretch.edge}",
        )
    return found


def draw_unusual(
    axes: Axes,
    x: npt.NDArray[np.float64],
    line: npt.NDArray[np.float64],
    expected: npt.NDArray[np.bool_],
    values: ValueAxis,
    colour: str,
) -> None:
    """Mark what a line cannot show, at the floor or the top of the panel; NaN where a value is `expected`."""
    for kind, mask in kinds(np.asarray(line, dtype=np.float64), expected, log=values.log).items():
        if mask.any():
            symbol, height = SYMBOLS[kind]
            axes.plot(
                x[mask],
                np.full(int(mask.sum()), height),
                transform=axes.get_xaxis_transform(),
                linestyle="none",
                marker=_MARKS[symbol],
                color=colour,
                markersize=4,
                clip_on=False,
                gid=f"mark {kind}",
            )


def end_labels(
    axes: Axes,
    ends: Sequence[tuple[float, str, str]],
    *,
    height: float,
    beside: float = 1.0,
) -> None:
    """Write texts beside the right edge of `axes`, each at its value (value, text, colour), pushed apart.

    `height` is that of the axes in inches, `beside` where the labels begin, 1 the right edge. The limits and the
    scale of the axes must stand. Values that have no place on the axis get no label.
    """
    low, high = axes.get_ylim()
    log = axes.get_yscale() == "log"
    if log:
        low, high = np.log10(low), np.log10(high)
    placed: list[tuple[float, str, str]] = []
    for value, text, colour in ends:
        if np.isfinite(value) and (value > 0 or not log):
            place = ((np.log10(value) if log else value) - low) / (high - low)
            placed.append((float(place), text, colour))
    placed.sort(key=lambda entry: entry[0])
    apart = 1.1 * TEXT / (72 * height)
    heights = spread([entry[0] for entry in placed], apart)
    for (_, text, colour), height_of in zip(placed, heights, strict=True):
        axes.text(
            beside + 0.02,
            height_of,
            text,
            transform=axes.transAxes,
            color=colour,
            ha="left",
            va="center",
            clip_on=False,
        )


def spread(places: Sequence[float], apart: float) -> list[float]:
    """Return ascending `places` at least `apart` from one another, each group centred on where it belongs.

    The result stays between 0 and 1 where it fits.
    """
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _top(groups[-2], apart) + apart > _bottom(groups[-1], apart):
            last = groups.pop()
            groups[-1] += last
    out = [_bottom(group, apart) + apart * rank for group in groups for rank in range(len(group))]
    for index in range(len(out) - 1, -1, -1):  # down from the top, then up from the floor
        out[index] = min(out[index], 1.0 if index == len(out) - 1 else out[index + 1] - apart)
    for index in range(len(out)):
        out[index] = max(out[index], 0.0 if index == 0 else out[index - 1] + apart)
    return out


def _bottom(group: Sequence[float], apart: float) -> float:
    return sum(group) / len(group) - apart * (len(group) - 1) / 2


def _top(group: Sequence[float], apart: float) -> float:
    return sum(group) / len(group) + apart * (len(group) - 1) / 2
