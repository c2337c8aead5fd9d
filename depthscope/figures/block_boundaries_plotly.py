"""Block boundaries, drawn by plotly: the state folded by position in block, or what changes at boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.beyond import Stretch, beyond_marks, beyond_words, stretches
from depthscope.figures.block_boundaries_axes import (
    MOST_NUMBERED,
    boundary_axis,
    drawn_as_map,
    has_position_markers,
    has_reference,
    left_out_words,
    line_width,
    rows_drawn,
)
from depthscope.figures.block_boundaries_map_plotly import folded_map
from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, step_axis
from depthscope.figures.names import plotly_text
from depthscope.figures.run_columns import RunColumns
from depthscope.figures.typed import typed
from depthscope.figures.unusual import MARK_AXIS, Unusual, marks, together
from depthscope.figures.value_axis import ValueAxis

MOST_RUNS = 6
_STANDOFF = 4
"""Pixels between the numbers of an axis and lines that begin at it."""


def block_boundaries_plotly(
    data: Labelled, *, look: Look, log: bool = True, end: int | None = None
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `block_boundaries_data`.

    Folded: runs side by side, one line a block, the later the thicker, or with many blocks one row of a map each.
    Over steps: one line a block or boundary of each run. A run without blocks is grey: it is the control. `end` is
    where the axis of steps ends.
    """
    shown = dict(list(data.arrays.items())[:MOST_RUNS])
    if drawn_as_map(data):
        return folded_map(shown, data, look, log)
    if data.attributes["show"] == "folded":
        return _folded(shown, data, look, boundary_axis(data, log=log))
    return _over_steps(shown, data, look, boundary_axis(data, log=log), end)


def _folded(shown: dict[str, xr.DataArray], data: Labelled, look: Look, values: ValueAxis) -> dict[str, Any]:
    layout = frame(look, left=44, top=24, right=16, bottom=40)
    columns = RunColumns(shown, data, look)
    traces: list[dict[str, Any]] = []
    numbers: list[dict[str, Any]] = []
    unusual: list[Unusual] = []
    for place, (run, array) in enumerate(shown.items()):
        suffix = columns.suffix(place)
        on = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        x = np.asarray(array["position"].values, dtype=np.float64)
        blocks = array.sizes["block"]
        for row in range(blocks):
            line = _line(run, array, row, look, data)
            traces.append(
                {
                    **line,
                    **on,
                    "x": typed(x),
                    "y": typed(values.drawable(array.values[row])),
                    "mode": "lines+markers" if has_position_markers(array) else "lines",
                    "marker": {"size": 5, "color": line["line"]["color"]},
                }
            )
            drawn, counts = marks(
                x,
                np.asarray(array.values[row], dtype=np.float64),
                array["layer"].values[row] > 0,
                log=values.log,
                colour=line["line"]["color"],
                meta={"run": run, "row": row + 1, "dim": "block"},
            )
            traces += [{**trace, **on, "yaxis": f"y{len(shown) + place + 1}"} for trace in drawn]
            unusual.append(counts)
            here = np.flatnonzero(np.isfinite(values.drawable(array.values[row])))
            if blocks <= MOST_NUMBERED and here.size:
                last = {"x": float(x[here[-1]]), "y": float(array.values[row][here[-1]])}
                numbers.append({"axis": suffix, "text": str(row + 1), **last})
        positions = array.sizes["position"]
        layout[f"xaxis{suffix}"] = columns.position_axis(place, [0.6, positions + max(0.4, positions / 20)])
        layout[f"yaxis{suffix}"] = axis(
            look, grid=True, anchor=f"x{suffix}", showticklabels=place == 0, **values.plotly()
        )
        mark_axis = {**MARK_AXIS, "overlaying": f"y{suffix}", "anchor": f"x{suffix}"}
        layout[f"yaxis{len(shown) + place + 1}"] = mark_axis
    layout["meta"] = {
        "panel": "boundaries",
        "show": "folded",
        **columns.described(),
        "ends": numbers,
        "unusual": together(unusual).words(),
        "note": values.note,
    }
    return {"data": traces, "layout": layout}


def _over_steps(
    shown: dict[str, xr.DataArray], data: Labelled, look: Look, values: ValueAxis, end: int | None
) -> dict[str, Any]:
    newest = [int(array["step_end"].values[-1]) for array in shown.values()]
    last = max(newest + ([] if end is None else [end]), default=0) or 1
    rows = rows_drawn(data)
    traces: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    unusual: list[Unusual] = []
    found: list[Stretch] = []
    for run, array in shown.items():
        steps = np.asarray(array["step_end"].values, dtype=np.float64)
        for row in rows[run]:
            line = _line(run, array, row, look, data)
            series = np.asarray(array.values[row], dtype=np.float64)
            drawable = values.drawable(series)
            traces.append({**line, "x": typed(steps), "y": typed(drawable), "mode": "lines"})
            here = stretches(series, values)
            found += here
            colour, meta = line["line"]["color"], {"run": run, "row": row + 1, "dim": str(array.dims[0])}
            traces += beyond_marks(steps, series, here, colour=colour, meta=meta)
            drawn, counts = marks(
                steps, series, np.ones(steps.shape, bool), log=values.log, colour=colour, meta=meta
            )
            traces += drawn
            unusual.append(counts)
            finite = drawable[np.isfinite(drawable)]
            if finite.size and len(rows[run]) <= MOST_NUMBERED:
                slot = None if array.attrs["control"] else look.slot(run, list(data.arrays))
                label = {"run": run, "slot": slot, "text": str(row + 1), "y": float(finite[-1]), "pin": False}
                labels.append(label)
    layout = frame(look, left=44, top=20, right=40, bottom=40)
    layout |= {
        "xaxis": step_axis(look, last, 4),
        "yaxis": axis(look, grid=True, ticklabelstandoff=_STANDOFF, **values.plotly()),
        "yaxis2": dict(MARK_AXIS),
        "shapes": _one(look) if has_reference(data) else [],
        "meta": {
            "panel": "boundaries",
            "show": data.attributes["show"],
            "labels": labels,
            "focus": look.focus if look.focus in shown else next(iter(shown), None),
            "unusual": together(unusual).words(),
            "beyond": beyond_words(found, values),
            "left_out": left_out_words(data),
            "note": values.note,
        },
    }
    return {"data": traces, "layout": layout}


def _line(run: str, array: xr.DataArray, row: int, look: Look, data: Labelled) -> dict[str, Any]:
    """Describe the line of one block: the run's colour and dash, the thicker the later the block."""
    order = list(data.arrays)
    control = bool(array.attrs["control"])
    line: Mapping[str, Any] = {
        "color": look.theme["run-control"] if control else look.colour(run, order),
        "width": line_width(row, array.shape[0]),
        "dash": look.dash(run, order),
    }
    return {
        "type": "scatter",
        "name": f"{plotly_text(data.names.get(run, run))}, {array.dims[0]} {row + 1}",
        "line": line,
        "hoverinfo": "none" if look.host == "page" else "x+y+name",
        "meta": {
            "run": run,
            "role": f"{array.dims[0]}-{row + 1}",
            "row": row + 1,
            "dim": str(array.dims[0]),
            "control": control,
        },
    }


def _one(look: Look) -> list[dict[str, Any]]:
    ends = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    line = {"color": look.theme["text-muted"], "width": 1, "dash": "3px,3px"}
    return [{"type": "line", **ends, "line": line}]
