"""What lies over a target x source map: hatching, block gaps, dots for partial blocks and kinds of sublayers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.attention_axes import row_height
from depthscope.figures.look import Look
from depthscope.figures.map_marks import hatched_boxes
from depthscope.figures.typed import typed

_MOST_DOTTED_ROWS = 60
_GAP = 2.0
"""px between two blocks."""


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
    """Hatch the cells of `mask` with one filled trace on `axes` (x, y); the middle of the first cell is at 0, 0."""
    boxes = [
        (left - 0.5, right - 0.5, top - 0.5, bottom - 0.5) for top, bottom, left, right in boxes_of(mask)
    ]
    return hatched_boxes(boxes, axes, look, {"run": run})


def partial_marks(
    array: xr.DataArray, axes: tuple[str, str], run: str, look: Look, *, cased: bool
) -> list[dict[str, Any]]:
    """Mark the cells that hold the partial sum of the target's own block: a dot each, lines along low rows.

    `cased`: white with a dark edge, for maps with dark and light cells; else in the colour of text.
    """
    partial, marks = np.asarray(array["partial"].values), marks_of(array)
    colour = look.theme["map-cursor" if cased else "text-secondary"]
    casing = look.theme["map-cursor-casing"]
    if "partial" in marks:
        rows = _partial_rows(array)
        edge = {"line": {"color": casing, "width": 1}} if cased else {}
        marker = {"symbol": "circle", "size": 5 if cased else 4, "color": colour, **edge}
        return [_dots(partial[rows], rows, axes, run, "partial", marker)]
    if "partial-line" not in marks:
        return []
    x: list[float | None] = []
    y: list[float | None] = []
    for first, last in partial_stretches(array):
        x += [float(partial[first])] * 2 + [None]
        y += [first - 0.3, last + 0.3, None]
    pens = [*([(casing, 3.5)] if cased else []), (colour, 2.0)]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x[:-1],
            "y": y[:-1],
            "xaxis": axes[0],
            "yaxis": axes[1],
            "line": {"color": pen, "width": width},
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"run": run, "role": "partial"},
        }
        for pen, width in pens
    ]


def marks_of(array: xr.DataArray) -> set[str]:
    """Return the marks that one run's map gets, so that a key names those and no others.

    ``attention``, ``mlp`` and ``other`` for dots beside the rows; ``partial`` for dots in cells, or
    ``partial-line`` where rows are too low for them; ``unreachable`` for hatching, ``hidden`` for cells left out.
    """
    found = {"unreachable"} if not array["reachable"].values.all() else set()
    found |= {"hidden"} if array["hidden"].values.any() else set()
    found |= drawn_kinds(array)
    if array.sizes["target"] <= _MOST_DOTTED_ROWS:
        found |= {"partial"} if _partial_rows(array).size else set()
    elif partial_stretches(array):
        found |= {"partial-line"}
    return found


def drawn_kinds(array: xr.DataArray) -> set[str]:
    """Return the kinds of sublayers that get dots beside the rows of a map: none where rows are too low."""
    if array.sizes["target"] > _MOST_DOTTED_ROWS:
        return set()
    return {str(kind) for kind in array["target_kind"].values} - {"output"}


def partial_stretches(array: xr.DataArray) -> list[tuple[int, int]]:
    """Return the first and last row of each stretch of partial cells in one column, of two rows or more."""
    rows, partial = _partial_rows(array), np.asarray(array["partial"].values)
    if rows.size == 0:
        return []
    ends = np.flatnonzero((np.diff(rows) > 1) | (np.diff(partial[rows]) != 0))
    firsts, lasts = rows[np.concatenate([[0], ends + 1])], rows[np.concatenate([ends, [rows.size - 1]])]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True) if last > first]


def _partial_rows(array: xr.DataArray) -> npt.NDArray[np.intp]:
    partial = np.asarray(array["partial"].values)
    drawn = ~np.asarray(array["hidden"].values)[np.arange(partial.size), np.maximum(partial, 0)]
    return np.flatnonzero((partial >= 0) & drawn)


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


def block_gaps(array: xr.DataArray, height: float, wide: float) -> list[tuple[int, float]]:
    """Return (row, width) of the gaps before rows, in a map with rows `height` high: widths in the same unit.

    Blocks are parted by `wide` where they are 12 times as high, by half of it down to 5 times, and not at all
    below: many gaps would outweigh what they part. The final read always stands apart, by half a row at most.
    """
    starts = np.flatnonzero(array["starts_block"].values)
    kinds = array["target_kind"].values
    each = height * array.sizes["target"] / (1 + int(np.sum(kinds[starts] != "output")))
    inner = wide if each >= 12 * wide else wide / 2 if each >= 5 * wide else 0.0
    found = [(int(row), min(wide, height / 2) if kinds[row] == "output" else inner) for row in starts]
    return [(row, width) for row, width in found if width > 0]


def gap_lines(array: xr.DataArray, x_axis: str, y_axis: str, look: Look) -> list[dict[str, Any]]:
    """Draw the gaps of a map in the colour of the surface."""
    right = array.sizes["source"] - 0.5
    return [
        {
            "type": "line",
            "xref": x_axis,
            "yref": y_axis,
            "x0": -0.5,
            "x1": right,
            "y0": row - 0.5,
            "y1": row - 0.5,
            "line": {"color": look.theme["surface"], "width": width},
        }
        for row, width in block_gaps(array, row_height(array), _GAP)
    ]
