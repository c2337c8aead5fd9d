"""Block boundaries, drawn by plotly: the state folded by position in block, or what changes at boundaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, step_axis, with_alpha
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import round_ticks, short_number
from depthscope.figures.typed import typed

MOST_RUNS = 6
_GAP = 0.04


def block_boundaries_plotly(data: Labelled, *, look: Look, end: int | None = None) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `block_boundaries_data`.

    Folded: runs side by side, one line a block, the later the stronger. Over steps: one line a block or boundary
    of each run. A run without blocks is grey: it is the control. `end` is where the axis of steps ends.
    """
    shown = dict(list(data.arrays.items())[:MOST_RUNS])
    part = _folded if data.attributes["show"] == "folded" else _over_steps
    return part(shown, data, look, end)


def _folded(shown: dict[str, xr.DataArray], data: Labelled, look: Look, end: int | None) -> dict[str, Any]:
    order = list(data.arrays)
    layout = frame(look, left=44, top=24, right=16, bottom=40)
    width = (1 - _GAP * (len(shown) - 1)) / max(len(shown), 1)
    value_range = _range([array.values for array in shown.values()])
    ticks = round_ticks(0, value_range[1], 5)
    traces: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    for place, (run, array) in enumerate(shown.items()):
        suffix = "" if place == 0 else str(place + 1)
        x = np.asarray(array["position"].values, dtype=np.float64)
        for row in range(array.sizes["block"]):
            line = _line(run, array, row, look, order, data)
            layers = [int(layer) for layer in array["layer"].values[row]]
            traces.append(
                {
                    **line,
                    "x": typed(x),
                    "y": typed(array.values[row]),
                    "xaxis": f"x{suffix}",
                    "yaxis": f"y{suffix}",
                    "mode": "lines+markers",
                    "marker": {"size": 5, "color": line["line"]["color"]},
                    "meta": {**line["meta"], "layers": layers},
                }
            )
        left = place * (width + _GAP)
        positions = array.sizes["position"]
        layout[f"xaxis{suffix}"] = axis(
            look,
            ticks=True,
            title="position in block",
            range=[0.6, positions + 0.4],
            domain=[left, left + width],
            anchor=f"y{suffix}",
            tickvals=list(range(1, positions + 1, -(-positions // 8))),
        )
        layout[f"yaxis{suffix}"] = axis(
            look,
            grid=True,
            range=value_range,
            anchor=f"x{suffix}",
            tickvals=ticks,
            ticktext=[short_number(tick) for tick in ticks],
            showticklabels=place == 0,
        )
        control = " (control: sums over virtual blocks)" if array.attrs["control"] else ""
        name = shortened(data.names.get(run, run), 24)
        maps.append(
            {
                "run": run,
                "slot": None if control else look.slot(run, order),
                "name": f"{name}{control}",
                "axis": suffix,
            }
        )
    steps = {run: int(array["step"].values) for run, array in shown.items()}
    layout["meta"] = {"panel": "boundaries", "show": "folded", "columns": maps, "steps": steps}
    return {"data": traces, "layout": layout}


def _over_steps(
    shown: dict[str, xr.DataArray], data: Labelled, look: Look, end: int | None
) -> dict[str, Any]:
    order = list(data.arrays)
    newest = [int(array["step_end"].values[-1]) for array in shown.values()]
    last = max(newest + ([] if end is None else [end]), default=0) or 1
    value_range = _range([array.values for array in shown.values()])
    ticks = round_ticks(0, value_range[1], 4)
    traces = [
        {
            **_line(run, array, row, look, order, data),
            "x": typed(np.asarray(array["step_end"].values, dtype=np.float64)),
            "y": typed(array.values[row]),
            "mode": "lines",
        }
        for run, array in shown.items()
        for row in range(array.shape[0])
    ]
    layout = frame(look, left=40, top=20, right=16, bottom=40)
    layout |= {
        "xaxis": step_axis(look, last, 4),
        "yaxis": axis(
            look,
            grid=True,
            range=value_range,
            tickvals=ticks,
            ticktext=[short_number(tick) for tick in ticks],
        ),
        "shapes": _one(look) if data.attributes["show"] in ("reset", "read") else [],
        "meta": {"panel": "boundaries", "show": data.attributes["show"]},
    }
    return {"data": traces, "layout": layout}


def _line(
    run: str, array: xr.DataArray, row: int, look: Look, order: list[str], data: Labelled
) -> dict[str, Any]:
    """Describe the line of one block: the run's colour, the stronger the later the block."""
    count = array.shape[0]
    colour = look.theme["text-muted"] if array.attrs["control"] else look.colour(run, order)
    strength = 1.0 if count < 2 else 0.35 + 0.65 * row / (count - 1)
    name = plotly_text(data.names.get(run, run))
    return {
        "type": "scatter",
        "name": f"{name}, {array.dims[0]} {row + 1}",
        "line": {"color": with_alpha(colour, strength), "width": 2, "dash": look.dash(run, order)},
        "hoverinfo": "none" if look.host == "page" else "x+y+name",
        "meta": {
            "run": run,
            "role": f"{array.dims[0]}-{row + 1}",
            "row": row + 1,
            "dim": str(array.dims[0]),
            "control": bool(array.attrs["control"]),
        },
    }


def _range(values: list[Any]) -> list[float]:
    together = np.concatenate(
        [np.asarray(value, dtype=np.float64).ravel() for value in values] or [np.empty(0)]
    )
    finite = together[np.isfinite(together)]
    # A few records at the start may be far off; the axis is drawn for the rest.
    high = float(np.percentile(finite, 99.5)) if finite.size else 1.0
    return [0.0, 1.08 * high if high > 0 else 1.0]


def _one(look: Look) -> list[dict[str, Any]]:
    ends = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    line = {"color": look.theme["text-muted"], "width": 1, "dash": "3px,3px"}
    return [{"type": "line", **ends, "line": line}]
