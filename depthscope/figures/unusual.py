"""Values that a line cannot show: NaN, infinite, and zero or less on a log axis; each gets its own mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.figures.typed import typed

SYMBOLS = {
    "NaN": ("x-thin", 0.02),
    "infinite": ("triangle-up", 0.98),
    "minus infinite": ("triangle-down", 0.02),
    "zero or less": ("line-ns", 0.015),
}
"""Plotly's symbol for each kind, and its height from 0, the floor, to 1."""

MARK_AXIS: dict[str, Any] = {
    "overlaying": "y",
    "range": [0, 1],
    "fixedrange": True,
    "visible": False,
    "showgrid": False,
}
"""The axis of the marks: they stay at the floor or the top however the values are zoomed."""


@dataclass(frozen=True, kw_only=True)
class Unusual:
    """How many values of each kind there are, for the words in a panel's header."""

    counts: dict[str, int]

    def words(self) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count)


def kinds(values: npt.NDArray[np.float64], expected: npt.NDArray[np.bool_], *, log: bool) -> dict[str, Any]:
    """Return for each kind of unusual value a mask like `values`; NaN counts only where a value is `expected`."""
    return {
        "NaN": np.isnan(values) & expected,
        "infinite": np.isposinf(values),
        "minus infinite": np.isneginf(values),
        "zero or less": np.isfinite(values) & (values <= 0) & log,
    }


def marks(
    x: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    expected: npt.NDArray[np.bool_],
    *,
    log: bool,
    colour: str,
    meta: dict[str, Any],
) -> tuple[list[dict[str, Any]], Unusual]:
    """Return plotly traces that mark unusual values at their `x`, and their count."""
    traces = []
    counts = {}
    for kind, mask in kinds(values, expected, log=log).items():
        counts[kind] = int(mask.sum())
        if not counts[kind]:
            continue
        symbol, height = SYMBOLS[kind]
        line = {"color": colour, "width": 1.5}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": typed(x[mask]),
                "y": typed(np.full(counts[kind], height)),
                "yaxis": "y2",
                "marker": {"symbol": symbol, "size": 8, "color": colour, "line": line},
                "cliponaxis": False,
                "showlegend": False,
                "hoverinfo": "none",
                "meta": {**meta, "role": "mark", "kind": kind},
            }
        )
    return traces, Unusual(counts=counts)


def together(parts: list[Unusual]) -> Unusual:
    """Add up the counts of several curves."""
    names = [name for part in parts for name in part.counts]
    return Unusual(
        counts={name: sum(part.counts.get(name, 0) for part in parts) for name in dict.fromkeys(names)}
    )
