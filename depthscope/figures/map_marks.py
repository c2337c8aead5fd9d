"""What lies over a map: marks for unusual values, hatching for what is not there, residual-block boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.look import Look
from depthscope.figures.typed import typed
from depthscope.figures.unusual import SYMBOLS

_MOST_MARKS = 200
MANY_BOUNDARIES = 10
"""Boundaries in one map from which they are drawn faint."""


def column_edges(array: xr.DataArray) -> npt.NDArray[np.float64]:
    """Return the edges of a map's columns in steps, shape [columns + 1]: half way between recorded steps."""
    start = np.asarray(array["step_start"].values, dtype=np.float64)
    end = np.asarray(array["step_end"].values, dtype=np.float64)
    half = (column_width(array) - float(np.median(end - start))) / 2
    return np.concatenate([[start[0] - half], (end[:-1] + start[1:]) / 2, [end[-1] + half]])


def column_width(array: xr.DataArray) -> float:
    """Return how many steps a column stands for: the distance of neighbours, 1 for a single column."""
    start = np.asarray(array["step_start"].values, dtype=np.float64)
    return float(np.median(np.diff(start))) if start.size > 1 else 1.0


def mark_cells(
    run: str,
    kind: str,
    mask: npt.NDArray[np.bool_],
    edges: npt.NDArray[np.float64],
    suffix: str,
    colour: str,
) -> list[dict[str, Any]]:
    """Mark cells without a colour of their own; the header counts them all."""
    layer, column = np.nonzero(mask)
    if layer.size == 0:
        return []
    layer, column = layer[:_MOST_MARKS], column[:_MOST_MARKS]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": typed((edges[column] + edges[column + 1]) / 2),
            "y": typed(layer + 1.0),
            "xaxis": f"x{suffix}",
            "yaxis": f"y{suffix}",
            "marker": {
                "symbol": SYMBOLS[kind][0],
                "size": 5,
                "color": colour,
                "line": {"color": colour, "width": 1},
            },
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"run": run, "role": "mark", "kind": kind},
        }
    ]


def hatch(
    array: xr.DataArray, edges: npt.NDArray[np.float64], last: float | None, suffix: str, look: Look
) -> list[dict[str, Any]]:
    """Hatch what is not there: steps after the newest row up to `last`, sublayers that the design cannot fill."""
    layers = array.sizes["layer"]
    boxes = []
    if last is not None:
        boxes.append((float(edges[-1]), last, 0.5, layers + 0.5))
    unreachable = np.flatnonzero(~np.asarray(array["reachable"].values, dtype=bool))
    boxes += [(float(edges[0]), float(edges[-1]), layer + 0.5, layer + 1.5) for layer in unreachable]
    return hatched(boxes, suffix, look)


def hatched(
    boxes: Sequence[tuple[float, float, float, float]], suffix: str, look: Look
) -> list[dict[str, Any]]:
    """Hatch `boxes` (left, right, top, bottom) of the axes numbered `suffix`, as one trace."""
    return hatched_boxes(boxes, (f"x{suffix}", f"y{suffix}"), look, {})


def hatched_boxes(
    boxes: Sequence[tuple[float, float, float, float]],
    axes: tuple[str, str],
    look: Look,
    meta: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Hatch `boxes` (left, right, top, bottom) on `axes` (x, y), as one trace whose meta has the role ``hatch``."""
    if not boxes:
        return []
    x: list[float | None] = []
    y: list[float | None] = []
    for left, right, top, bottom in boxes:
        x += [left, right, right, left, left, None]
        y += [top, top, bottom, bottom, top, None]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x[:-1],
            "y": y[:-1],
            "xaxis": axes[0],
            "yaxis": axes[1],
            "fill": "toself",
            "fillcolor": "rgba(0,0,0,0)",
            "fillpattern": {"shape": "/", "size": 6, "solidity": 0.16, "fgcolor": look.theme["chart-hatch"]},
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {**meta, "role": "hatch"},
        }
    ]


def boundaries(
    array: xr.DataArray, edges: npt.NDArray[np.float64], suffix: str, colour: str
) -> list[dict[str, Any]]:
    """Draw residual-block boundaries over what is recorded; only runs that have blocks get any.

    Where there are many they are faint: rows of a few pixels would otherwise show the lines rather than the values.
    """
    blocks = array["residual_block"].values
    after = np.flatnonzero(np.diff(blocks)) + 1
    opacity = 1.0 if after.size < MANY_BOUNDARIES else 0.4
    if after.size > len(blocks) // 2:
        return []
    return [
        {
            "type": "line",
            "xref": f"x{suffix}",
            "yref": f"y{suffix}",
            "x0": float(edges[0]),
            "x1": float(edges[-1]),
            "y0": float(layer) + 0.5,
            "y1": float(layer) + 0.5,
            "line": {"color": colour, "width": 1},
            "opacity": opacity,
        }
        for layer in after
    ]
