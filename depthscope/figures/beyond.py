"""Values beyond the ends of an axis: a mark at the edge for each stretch of them, and their count for the header."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.figures.ticks import significant
from depthscope.figures.typed import typed
from depthscope.figures.value_axis import ValueAxis

EDGES = {"above": ("triangle-up-open", 0.985), "below": ("triangle-down-open", 0.015)}
"""Plotly's symbol at each end, and its height from 0, the floor, to 1; filled ones mark infinite values."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Neighbouring values of one line that lie beyond the same end of its axis."""

    edge: str
    place: int
    """Of the farthest value, from 0."""
    count: int


def stretches(values: npt.ArrayLike, axis: ValueAxis) -> list[Stretch]:
    """Return where a line leaves `axis`, in order; values without a place on it have marks of their own."""
    given = axis.drawable(values)
    low, high = axis.ends
    found = []
    for edge, outside, distance in (("above", given > high, given), ("below", given < low, -given)):
        places = np.flatnonzero(outside)
        for part in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            if part.size:
                farthest = int(part[np.argmax(distance[part])])
                found.append(Stretch(edge=edge, place=farthest, count=int(part.size)))
    return sorted(found, key=lambda stretch: stretch.place)


def beyond_words(found: Iterable[Stretch], axis: ValueAxis) -> str:
    """Return how many values lie beyond the axis: ``12 points above 4.97``."""
    counts = dict.fromkeys(EDGES, 0)
    for stretch in found:
        counts[stretch.edge] += stretch.count
    low, high = axis.ends
    ends = {"above": high, "below": low}
    return ", ".join(
        f"{count} point{'' if count == 1 else 's'} {edge} {significant(ends[edge])}"
        for edge, count in counts.items()
        if count
    )


def beyond_marks(
    x: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    found: Iterable[Stretch],
    *,
    colour: str,
    meta: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return plotly traces that mark `found`, on the axis y2 of `unusual.MARK_AXIS`."""
    traces = []
    for edge, (symbol, height) in EDGES.items():
        places = [stretch.place for stretch in found if stretch.edge == edge]
        if not places:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": typed(x[places]),
                "y": typed(np.full(len(places), height)),
                "customdata": typed(values[places]),
                "yaxis": "y2",
                "marker": {"symbol": symbol, "size": 9, "color": colour, "line": {"width": 1.5}},
                "cliponaxis": False,
                "showlegend": False,
                "hoverinfo": "none",
                "meta": {**meta, "role": "mark", "kind": edge},
            }
        )
    return traces
