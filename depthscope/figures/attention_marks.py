"""What lies over a target x source map: hatching, block gaps, dots for partial blocks and kinds of sublayers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.look import Look
from depthscope.figures.typed import typed

_MOST_DOTTED_ROWS = 60


def boxes_of(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """Return boxes (top, bottom, left, right), ends excluded, that cover `mask` [rows, columns].

    Rows with the same stretches are joined, so the staircase of a design with blocks is a few boxes.
    """
    found: list[tuple[int, int, int, int]] = []
    row = 0
    while row < mask.shape[0]:
        end = row + 1
        while end < mask.shape[0] and np.array_equal(mask[end], mask[row]):
            end += 1
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask[row].astype(np.int8), [0]])))
        found += [
            (row, end, int(left), int(right)) for left, right in zip(edges[::2], edges[1::2], strict=True)
        ]
        row = end
    return found


def hatched(mask: npt.NDArray[np.bool_], axes: tuple[str, str], run: str, look: Look) -> list[dict[str, Any]]:
    """Hatch the cells of `mask` with one filled trace on `axes` (x, y)."""
    x: list[float | None] = []
    y: list[float | None] = []
    for top, bottom, left, right in boxes_of(mask):
        x += [left - 0.5, right - 0.5, right - 0.5, left - 0.5, left - 0.5, None]
        y += [top - 0.5, top - 0.5, bottom - 0.5, bottom - 0.5, top - 0.5, None]
    if not x:
        return []
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
            "meta": {"run": run, "role": "hatch"},
        }
    ]


def partial_dots(
    array: xr.DataArray, axes: tuple[str, str], run: str, colour: str, look: Look
) -> list[dict[str, Any]]:
    """Put a dot into each cell that holds the unfinished sum of the target's own block."""
    partial = np.asarray(array["partial"].values)
    drawn = ~np.asarray(array["hidden"].values)[np.arange(partial.size), np.maximum(partial, 0)]
    rows = np.flatnonzero((partial >= 0) & drawn)
    if rows.size == 0 or partial.size > _MOST_DOTTED_ROWS:
        return []
    marker = {"symbol": "circle", "size": 4, "color": look.theme[colour]}
    return [_dots(partial[rows], rows, axes, run, "partial", marker)]


def kind_dots(array: xr.DataArray, axes: tuple[str, str], run: str, look: Look) -> list[dict[str, Any]]:
    """Tell attention (filled) from MLP (hollow) beside each row; other kinds are squares, the output has none."""
    kinds = np.asarray(array["target_kind"].values)
    rows = np.flatnonzero(kinds != "output")
    if rows.size == 0 or kinds.size > _MOST_DOTTED_ROWS:
        return []
    colour = look.theme["text-secondary"]
    marker = {
        "symbol": ["circle" if kind in ("attention", "mlp") else "square" for kind in kinds[rows]],
        "size": 6 if kinds.size <= 30 else 3.5,
        "color": [look.theme["surface"] if kind == "mlp" else colour for kind in kinds[rows]],
        "line": {"color": colour, "width": 1.2},
    }
    return [_dots(np.full(rows.size, 0.5), rows, axes, run, "kind", marker)]


def _dots(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    axes: tuple[str, str],
    run: str,
    role: str,
    marker: dict[str, Any],
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": typed(x.astype(np.float64)),
        "y": typed(y.astype(np.float64)),
        "xaxis": axes[0],
        "yaxis": axes[1],
        "marker": marker,
        "cliponaxis": False,
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"run": run, "role": role},
    }


def block_gaps(array: xr.DataArray, x_axis: str, y_axis: str, look: Look) -> list[dict[str, Any]]:
    """Part the rows at block boundaries, and the final read from the sublayers, by 2 px of the surface."""
    right = array.sizes["source"] - 0.5
    return [
        {
            "type": "line",
            "xref": x_axis,
            "yref": y_axis,
            "x0": -0.5,
            "x1": right,
            "y0": float(row) - 0.5,
            "y1": float(row) - 0.5,
            "line": {"color": look.theme["surface"], "width": 2},
        }
        for row in np.flatnonzero(array["starts_block"].values)
    ]
