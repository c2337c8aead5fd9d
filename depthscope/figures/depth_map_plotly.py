"""Depth map, drawn by plotly: one heatmap a run in columns, depth downward, one colour scale for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.bands import banded_runs
from depthscope.figures.depth_map import map_log
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits, limits_of
from depthscope.figures.look import Look, axis, frame
from depthscope.figures.map_marks import boundaries, column_edges, column_width, hatch, mark_cells
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import layer_ticks, round_ticks, short_number
from depthscope.figures.typed import typed
from depthscope.figures.unusual import Unusual, kinds, together

MOST_MAPS = 8
_GAP = 0.019
_GAP_WITH_TICKS = 0.042


def depth_map_plotly(
    data: Labelled, *, look: Look, log: bool = True, limits: Limits | None = None, end: int | None = None
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `depth_map_data`.

    `limits` are the ends of the common colour scale; None gives each run its own robust scale. `end` is the
    step at which every time axis ends; what a run has not recorded up to there is hatched.
    """
    log = map_log(data, log)
    signed = bool(data.attributes["signed"])
    shown = dict(list(data.arrays.items())[:MOST_MAPS])
    order = list(shown)
    alike = len({array.sizes["layer"] for array in shown.values()}) <= 1
    blocks = shown[(banded_runs(shown, look.focus) or order)[0]] if alike and shown else None
    gap = _GAP if alike else _GAP_WITH_TICKS
    width = (1 - gap * (len(shown) - 1)) / max(len(shown), 1)
    newest = {run: int(array["step_end"].values[-1]) for run, array in shown.items()}
    last = max([*newest.values(), *([] if end is None else [end])], default=0)
    partial = [run for run, array in shown.items() if last - newest[run] > column_width(array)]
    layout = frame(look, left=44, top=24, right=16, bottom=40)
    layout["coloraxis"] = {
        "colorscale": look.theme.diverging() if signed else look.theme.sequential(),
        "showscale": look.host == "alone",
        **_colour_ends(limits, log),
    }
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    unusual: list[Unusual] = []
    for place, (run, array) in enumerate(shown.items()):
        suffix = "" if place == 0 else str(place + 1)
        edges = column_edges(array)
        values = np.asarray(array.values, dtype=np.float64)
        own = limits if limits is not None else limits_of([array], log=log, symmetric=signed)
        traces.append(
            _heatmap(run, values, edges, suffix, log, own if limits is None else None, look, data.names)
        )
        masks = kinds(
            values, np.asarray(array["reachable"].values)[:, None] & np.ones_like(values, bool), log=log
        )
        unusual.append(Unusual(counts={kind: int(mask.sum()) for kind, mask in masks.items()}))
        for kind, mask in masks.items():
            traces += mark_cells(run, kind, mask, edges, suffix, look.colour(run, order))
        traces += hatch(array, edges, float(last) if run in partial else None, suffix, look)
        shapes += boundaries(array, edges, suffix, look.theme["chart-axis" if signed else "map-boundary"])
        left = place * (width + gap)
        time_range = [float(edges[0]), max(float(edges[-1]), float(last)) if partial else float(edges[-1])]
        layout[f"xaxis{suffix}"] = _time_axis(time_range, len(shown), [left, left + width], suffix, look)
        layout[f"yaxis{suffix}"] = _depth_axis(
            array if blocks is None else blocks, suffix, place == 0, place == 0 or not alike, look
        )
        maps.append(
            {
                "run": run,
                "slot": look.slot(run, order),
                "name": shortened(data.names.get(run, run), 24),
                "axis": suffix,
                "last": newest[run],
            }
        )
    layout["shapes"] = shapes
    layout["meta"] = {
        "panel": "map",
        "maps": maps,
        "log": log,
        "signed": signed,
        "layers": {
            run: {
                "kinds": [str(kind) for kind in array["layer_kind"].values],
                "blocks": [int(block) for block in array["residual_block"].values],
            }
            for run, array in shown.items()
        },
        "left_out": len(data.arrays) - len(shown),
        "partial": partial,
        "unusual": together(unusual).words(),
    }
    if look.host == "alone":
        layout["annotations"] = [_title(entry, order, look) for entry in maps]
    return {"data": traces, "layout": layout}


def _colour_ends(limits: Limits | None, log: bool) -> dict[str, float]:
    if limits is None:
        return {}
    low, high = (limits.low, limits.high) if not log else (np.log10(limits.low), np.log10(limits.high))
    return {"cmin": float(low), "cmax": float(high)}


def _heatmap(
    run: str,
    values: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    suffix: str,
    log: bool,
    own: Limits | None,
    look: Look,
    names: Mapping[str, str],
) -> dict[str, Any]:
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.log10(values) if log else values
    z = np.where(np.isfinite(z), z, np.nan).astype(np.float32)
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": typed(edges),
        "y": typed(np.arange(1, values.shape[0] + 1, dtype=np.float64)),
        "z": typed(z),
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "coloraxis": "coloraxis",
        "hoverinfo": "none",
        "hoverongaps": False,
        "name": plotly_text(names.get(run, run)),
        "meta": {"run": run, "role": "map"},
    }
    if own is not None:
        ends = _colour_ends(own, log)
        del trace["coloraxis"]
        scale = look.theme.diverging() if own.low == -own.high else look.theme.sequential()
        trace |= {"zmin": ends["cmin"], "zmax": ends["cmax"], "colorscale": scale, "showscale": False}
    if look.host == "alone":
        trace |= {
            "customdata": typed(values.astype(np.float32)),
            "hoverinfo": "text",
            "hovertemplate": f"<b>%{{customdata:.3g}}</b> {trace['name']}<br>sublayer %{{y}}<br>"
            "step %{x:.0f}<extra></extra>",
        }
    return trace


def _time_axis(
    time_range: list[float], maps: int, domain: list[float], suffix: str, look: Look
) -> dict[str, Any]:
    ticks = round_ticks(max(time_range[0], 0.0), time_range[1], 4 if maps <= 4 else 2)
    return axis(
        look,
        ticks=True,
        title="step",
        range=time_range,
        domain=domain,
        anchor=f"y{suffix}",
        tickvals=ticks,
        ticktext=[short_number(tick) for tick in ticks],
    )


def _depth_axis(array: xr.DataArray, suffix: str, titled: bool, labelled: bool, look: Look) -> dict[str, Any]:
    layers = array.sizes["layer"]
    return axis(
        look,
        ticks=labelled,
        title="sublayer" if titled else "",
        range=[layers + 0.5, 0.5],
        anchor=f"x{suffix}",
        showticklabels=labelled,
        tickvals=layer_ticks(layers, array["residual_block"].values.tolist()),
    )


def _title(entry: Mapping[str, Any], order: list[str], look: Look) -> dict[str, Any]:
    """Name a map above itself, for figures outside the page."""
    return {
        "text": plotly_text(entry["name"]),
        "xref": f"x{entry['axis']} domain",
        "yref": f"y{entry['axis']} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": look.theme["text"]},
    }
