"""Mixing, drawn by plotly: for each run a signed map of reads over origins, and cancellation beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

from depthscope.analysis import CANCELS
from depthscope.figures.attention_axes import row_height
from depthscope.figures.attention_marks import block_gaps, boxes_of, kind_dots
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits
from depthscope.figures.look import Look, frame
from depthscope.figures.map_marks import hatched_boxes
from depthscope.figures.mixing import cancellation_top, mixing_limits
from depthscope.figures.mixing_axes import MixingAxes
from depthscope.figures.names import plotly_text
from depthscope.figures.origin_axis import STRIPS, OriginAxis
from depthscope.figures.typed import typed

_BETWEEN_RUNS = 0.06
_GAP = 2.0
"""px between two blocks."""
_INTO_MARGIN = 8
"""px that the word over the bars, which are narrower than it, goes into the margin beside them."""
_MOST_APART = 60
_SEEN = 0.12
"""Of the strip of bars; below, none is seen well."""


def mixing_plotly(
    data: Labelled, *, look: Look, limits: Limits | None = None, top: float | None = None
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `mixing_data`; the app draws one run a figure.

    `limits` are the ends of the colour scale, `top` that of cancellation; None takes them from the runs drawn.
    """
    arrays = list(data.arrays.values())
    limits = limits if limits is not None else mixing_limits(arrays)
    top = top if top is not None else cancellation_top(arrays)
    alone = look.host == "alone"
    layout = frame(look, left=52, top=42 if alone else 22, right=14, bottom=38)
    layout |= {"bargap": 0.35, "showlegend": False, "coloraxis": _colours(data, limits, look)}
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    width = (1 - _BETWEEN_RUNS * (len(arrays) - 1)) / max(len(arrays), 1)
    for place, (run, array) in enumerate(data.arrays.items()):
        axes = MixingAxes(place, place * (width + _BETWEEN_RUNS), width, look)
        layout |= axes.described(array, top=top)
        traces += [*_maps(run, array, axes, look), _bars(run, array, axes, look)]
        traces += hatched_boxes(_never(array), (axes.origins, axes.rows), look, {"run": run})
        traces += kind_dots(array, (axes.gutter, axes.rows), run, look)
        shapes += [*_gaps(array, axes, look), *_cancellation_lines(axes, look)]
        notes += [*_heads(axes, str(data.attributes["share"]), look), *_hardly(array, axes, top, look)]
        if alone:
            name = plotly_text(data.names.get(run, run))
            notes.append(_note(name, axes.domain(axes.gutter)[0], look, shift=22, colour="text"))
    layout |= {
        "shapes": shapes,
        "annotations": notes,
        "meta": {
            "panel": "mixing",
            "share": data.attributes["share"],
            "mode": data.attributes["mode"],
            "maps": {run: _described(array) for run, array in data.arrays.items()},
        },
    }
    return {"data": traces, "layout": layout}


def _colours(data: Labelled, limits: Limits | None, look: Look) -> dict[str, Any]:
    ends = {} if limits is None else {"cmin": limits.low, "cmax": limits.high}
    bar = {"thickness": 10, "outlinewidth": 0}
    alone = {"showscale": True, "colorbar": bar} if look.host == "alone" else {"showscale": False}
    return {"colorscale": look.theme.diverging(), **alone, **ends}


def _maps(run: str, array: xr.DataArray, axes: MixingAxes, look: Look) -> list[dict[str, Any]]:
    """Draw embedding, sublayers and constant as maps of their own: columns of one width each are drawn fastest."""
    places = OriginAxis(layers=array.sizes["origin"] - 2)
    found = []
    for strip in STRIPS:
        low, high = places.edges(strip)
        columns = places.columns(strip)
        found.append(
            {
                "type": "heatmap",
                "x": typed(np.linspace(low, high, columns.stop - columns.start + 1)),
                "y": typed(np.arange(array.sizes["target"], dtype=np.float64)),
                "z": typed(np.asarray(array.values[:, columns], dtype=np.float32)),
                "xaxis": axes.origins,
                "yaxis": axes.rows,
                "coloraxis": "coloraxis",
                "hoverongaps": False,
                **({"hoverinfo": "none"} if look.host == "page" else _hover(array, columns)),
                "meta": {"run": run, "role": strip, "first": columns.start},
            }
        )
    return found


def _hover(array: xr.DataArray, columns: slice) -> dict[str, Any]:
    """Tell, cell by cell, what reads what."""
    origins = array["origin_name"].values[columns]
    told = [[f"{target} reads {origin}" for origin in origins] for target in array["target_name"].values]
    return {"text": told, "hovertemplate": "<b>%{z:.3g}</b><br>%{text}<extra></extra>"}


def _bars(run: str, array: xr.DataArray, axes: MixingAxes, look: Look) -> dict[str, Any]:
    """Draw cancellation from 1, where nothing cancels; what passes 2 is darker."""
    size = np.asarray(array["cancellation"].values, dtype=np.float64)
    theme = look.theme
    return {
        "type": "bar",
        "orientation": "h",
        "base": 1.0,
        "x": typed(size - 1),
        "y": typed(np.arange(size.size, dtype=np.float64)),
        "xaxis": axes.cancellation,
        "yaxis": axes.rows,
        **({"width": 1.0} if size.size > _MOST_APART else {}),
        "marker": {
            "color": [theme["text-secondary" if row else "border-control"] for row in size > CANCELS],
            "line": {"width": 0},
        },
        "hoverinfo": "none" if look.host == "page" else "x+y",
        "meta": {"run": run, "role": "cancellation"},
    }


def _never(array: xr.DataArray) -> list[tuple[float, float, float, float]]:
    """Return boxes (left, right, top, bottom) around the cells without a value: not read, or no coefficient."""
    places = OriginAxis(layers=array.sizes["origin"] - 2)
    found = []
    for strip in STRIPS:
        columns = places.columns(strip)
        low, high = places.edges(strip)
        wide = (high - low) / (columns.stop - columns.start)
        found += [
            (low + left * wide, low + right * wide, top - 0.5, bottom - 0.5)
            for top, bottom, left, right in boxes_of(~np.isfinite(array.values[:, columns]))
        ]
    return found


def _gaps(array: xr.DataArray, axes: MixingAxes, look: Look) -> list[dict[str, Any]]:
    """Part residual blocks in rows and in columns, in the colour of the surface."""
    places = OriginAxis(layers=array.sizes["origin"] - 2)
    rows = block_gaps(array, row_height(array), _GAP)
    below = array.sizes["target"] - 0.5
    lines = [((places.ends[0], row - 0.5), (places.ends[1], row - 0.5), width) for row, width in rows]
    lines += [
        ((row + 0.5, -0.5), (row + 0.5, below), width)
        for row, width in rows
        if row < array.sizes["target"] - 1 and width == _GAP
    ]
    return [
        {
            "type": "line",
            "xref": axes.origins,
            "yref": axes.rows,
            "x0": x0,
            "y0": y0,
            "x1": x1,
            "y1": y1,
            "line": {"color": look.theme["surface"], "width": width},
        }
        for (x0, y0), (x1, y1), width in lines
    ]


def _cancellation_lines(axes: MixingAxes, look: Look) -> list[dict[str, Any]]:
    """Draw where bars begin, and where single shares become large terms that cancel."""
    pens = {1.0: {"color": look.theme["chart-axis"], "width": 1}}
    pens[CANCELS] = {"color": look.theme["text-muted"], "width": 1, "dash": "3px,2px"}
    return [
        {
            "type": "line",
            "xref": axes.cancellation,
            "yref": "paper",
            "x0": place,
            "x1": place,
            "y0": 0,
            "y1": 1,
            "line": pen,
        }
        for place, pen in pens.items()
    ]


def _heads(axes: MixingAxes, share: str, look: Look) -> list[dict[str, Any]]:
    left = axes.domain(axes.gutter)[0]
    return [
        _note(share, axes.domain(axes.origins)[0], look, colour="text-secondary"),
        {
            **_note("cancels", axes.domain(axes.cancellation)[1], look, colour="text-secondary"),
            "xanchor": "right",
            "xshift": _INTO_MARGIN,
        },
        {**_note("target", left, look), "xanchor": "right", "xshift": -4},
    ]


def _hardly(array: xr.DataArray, axes: MixingAxes, top: float, look: Look) -> list[dict[str, Any]]:
    """Write the largest cancellation where all bars are too short to be seen: an empty strip would be a riddle."""
    largest = np.nanmax(array["cancellation"].values, initial=1.0)
    if largest - 1 > _SEEN * (top - 1):
        return []
    low, high = axes.domain(axes.cancellation)
    words = _note(f"≤ {math.ceil(round(100 * largest, 6)) / 100:g}", (low + high) / 2, look, shift=0)
    return [{**words, "y": 0.5, "xanchor": "center", "yanchor": "middle", "bgcolor": look.theme["surface"]}]


def _note(text: str, x: float, look: Look, *, shift: int = 4, colour: str = "text-muted") -> dict[str, Any]:
    return {
        "text": text,
        "xref": "paper",
        "yref": "paper",
        "x": x,
        "y": 1.0,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": shift,
        "showarrow": False,
        "font": {"size": 12, "color": look.theme[colour]},
    }


def _described(array: xr.DataArray) -> dict[str, Any]:
    """What hover text and the mark of the followed entry need."""
    places = OriginAxis(layers=array.sizes["origin"] - 2)
    return {
        "step": int(array["step"].values),
        "layers": places.layers,
        "target_names": array["target_name"].values.tolist(),
        "origin_names": array["origin_name"].values.tolist(),
        "sums": _rounded(array["sum"].values),
        "cancellation": _rounded(array["cancellation"].values),
        "edges": {strip: places.edges(strip) for strip in STRIPS},
    }


def _rounded(values: Any) -> list[float | None]:
    return [round(value, 4) if np.isfinite(value) else None for value in values.tolist()]
