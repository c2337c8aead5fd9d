"""Marks that several paper figures write: labels at the ends of lines, kept apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from depthscope.figures.paper import TEXT


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
