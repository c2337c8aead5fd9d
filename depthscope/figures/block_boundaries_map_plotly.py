"""Block boundaries with many blocks, drawn by plotly: block by position as a map a run, one colour scale for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.block_boundaries_axes import boundary_map_limits, boundary_map_log
from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame
from depthscope.figures.map_marks import hatched
from depthscope.figures.names import plotly_text
from depthscope.figures.run_columns import RunColumns
from depthscope.figures.ticks import layer_ticks
from depthscope.figures.typed import typed
from depthscope.figures.unusual import Unusual, kinds, together


def folded_map(shown: dict[str, xr.DataArray], data: Labelled, look: Look, log: bool) -> dict[str, Any]:
    """Return a plotly figure (as a dict): blocks downward, positions to the right, hatched past a shorter block's end."""
    log = boundary_map_log(data, log)
    signed = bool(data.attributes["signed"])
    limits = boundary_map_limits(data, log=log)
    layout = frame(look, left=44, top=24, right=16, bottom=40)
    layout["coloraxis"] = {
        "colorscale": look.theme.diverging() if signed else look.theme.sequential(),
        "showscale": look.host == "alone",
    }
    if limits is not None:
        ends = np.array([limits.low, limits.high])
        low, high = np.log10(ends) if log else ends
        layout["coloraxis"] |= {"cmin": float(low), "cmax": float(high)}
    columns = RunColumns(shown, data, look)
    traces: list[dict[str, Any]] = []
    unusual: list[Unusual] = []
    short = False
    for place, (run, array) in enumerate(shown.items()):
        suffix = columns.suffix(place)
        values = np.asarray(array.values, dtype=np.float64)
        there = array["layer"].values > 0
        traces.append(_cells(run, array, log, suffix, look, data))
        masks = kinds(values, there, log=log)
        unusual.append(Unusual(counts={kind: int(mask.sum()) for kind, mask in masks.items()}))
        boxes = [(column + 0.5, column + 1.5, row + 0.5, row + 1.5) for row, column in np.argwhere(~there)]
        traces += hatched(boxes, suffix, look)
        short |= bool(boxes)
        layout[f"xaxis{suffix}"] = columns.position_axis(place, [0.5, array.sizes["position"] + 0.5])
        blocks = array.sizes["block"]
        layout[f"yaxis{suffix}"] = axis(
            look,
            ticks=True,
            title="block" if place == 0 else "",
            range=[blocks + 0.5, 0.5],
            anchor=f"x{suffix}",
            tickvals=list(range(1, blocks + 1)) if blocks <= 4 else layer_ticks(blocks, [0] * blocks),
        )
    layout["meta"] = {
        "panel": "boundaries",
        "show": "folded",
        **columns.described(),
        "ends": [],
        "log": log,
        "short": short,
        "unusual": together(unusual).words(),
        "note": "",
    }
    return {"data": traces, "layout": layout}


def _cells(
    run: str, array: xr.DataArray, log: bool, suffix: str, look: Look, data: Labelled
) -> dict[str, Any]:
    values = np.asarray(array.values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.log10(values) if log else values
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": typed(array["position"].values.astype(np.float64)),
        "y": typed(array["block"].values.astype(np.float64)),
        "z": typed(np.where(np.isfinite(z), z, np.nan).astype(np.float32)),
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "coloraxis": "coloraxis",
        "hoverinfo": "none",
        "hoverongaps": False,
        "name": plotly_text(data.names.get(run, run)),
        "meta": {"run": run, "role": "map", "dim": "block", "control": bool(array.attrs["control"])},
    }
    if look.host == "alone":
        trace |= {
            "customdata": typed(values.astype(np.float32)),
            "hoverinfo": "text",
            "hovertemplate": f"<b>%{{customdata:.3g}}</b> {trace['name']}<br>block %{{y}}, position %{{x}}"
            "<extra></extra>",
        }
    return trace
