"""Lenses into depth, drawn by plotly: a line a run over depth, or a map a run of how alike depths are."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.attention_axes import long_name, numbered
from depthscope.figures.labelled import Labelled
from depthscope.figures.lens import LENS_VIEWS, line_places
from depthscope.figures.look import Look, axis, frame
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.step_lines import end_label
from depthscope.figures.ticks import layer_ticks, spaced
from depthscope.figures.typed import typed
from depthscope.figures.value_axis import ValueAxis, value_axis

MOST_LENS_MAPS = 4
_MOST_MARKED = 64
_BETWEEN = 0.05
_PLOT_WIDTH = {"page": 320.0, "alone": 900.0}
"""px of a plot, margins excluded, in the smallest window and on a page of its own."""
_NUMBER = 27
"""px from the middle of a tick's label to that of the next."""


def lens_plotly(data: Labelled, *, look: Look, log: bool = False) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `lens_data`: lines, or maps of CKA for the first four runs."""
    return _maps(data, look) if data.attributes["show"] == "cka" else _lines(data, look, log=log)


def _lines(data: Labelled, look: Look, *, log: bool) -> dict[str, Any]:
    order, show = list(data.arrays), data.attributes["show"]
    arrays = list(data.arrays.values())
    values = value_axis(arrays, log=log and show in ("kl", "loss"), signed=bool(data.attributes["signed"]))
    traces, labels = [], []
    for run, array in data.arrays.items():
        y = values.drawable(array.values)
        x = np.asarray(array["x"].values, dtype=np.float64)
        along = line_places(array)
        colour = look.colour(run, order)
        for first, last in ((0, along), (along, y.size)):
            if first == last:
                continue
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if y.size <= _MOST_MARKED else "lines",
                    "name": plotly_text(data.names.get(run, run)),
                    "showlegend": first == 0,
                    "x": typed(x[first:last]),
                    "y": typed(y[first:last]),
                    "line": {"color": colour, "width": 2, "dash": look.dash(run, order)},
                    "marker": {"size": 4, "color": colour},
                    "hoverinfo": "none" if look.host == "page" else "x+y+name",
                    "meta": {"run": run, "role": "line" if first == 0 else "constant", "first": first},
                }
            )
        ends = y[:along][np.isfinite(y[:along])]
        labels.append(end_label(run, ends, data.names, look, order))
    layout = frame(look, left=52, top=16, right=104, bottom=40)
    layout |= {
        "xaxis": _places(data, look),
        "yaxis": axis(look, grid=True, **values.plotly()),
        "meta": {
            "panel": "lens",
            "show": show,
            "focus": look.focus,
            "labels": labels,
            "note": values.note or _left_out(values, arrays),
            "runs": _described(data),
        },
    }
    return {"data": traces, "layout": layout}


def _left_out(values: ValueAxis, arrays: list[xr.DataArray]) -> str:
    """Say what a log axis has no place for: the output's own KL is 0."""
    return (
        "0 of the output itself left out"
        if values.log and any((array == 0).any() for array in arrays)
        else ""
    )


def _places(data: Labelled, look: Look) -> dict[str, Any]:
    """Return the axis of depth, from the embedding to the end of the deepest run."""
    view = LENS_VIEWS[data.attributes["show"]]
    deepest = max(data.arrays.values(), key=lambda array: float(array["x"].values.max()))
    last = int(deepest["x"].values.max())
    if data.attributes["show"] == "influence":
        ticks = layer_ticks(last, [0] * last)
        return axis(look, ticks=True, title=view.axis, range=[0.5, last + 0.5], tickvals=ticks)
    constant = data.attributes["show"] == "attribution"
    layers = last - constant
    inner = [
        tick
        for tick in layer_ticks(layers, [0] * layers)
        if tick > layers / 9 and (tick < layers or not constant)
    ]
    ticks, texts = [0, *inner], ["emb", *map(str, inner)]
    if constant:
        ticks, texts = [*ticks, last], [*texts, "const"]
    room = 0.02 * last
    return axis(look, ticks=True, title=view.axis, range=[-room, last + room], tickvals=ticks, ticktext=texts)


def _maps(data: Labelled, look: Look) -> dict[str, Any]:
    shown = dict(list(data.arrays.items())[:MOST_LENS_MAPS])
    width = (1 - _BETWEEN * (len(shown) - 1)) / max(len(shown), 1)
    layout = frame(look, left=44, top=24, right=16, bottom=40)
    layout |= {
        "showlegend": False,
        "coloraxis": {
            "colorscale": look.theme.sequential(),
            "cmin": 0,
            "cmax": 1,
            "showscale": look.host == "alone",
        },
        "annotations": [],
    }
    traces = []
    maps = []
    order = list(data.arrays)
    for place, (run, array) in enumerate(shown.items()):
        start = place * (width + _BETWEEN)
        x, y = numbered("x", place), numbered("y", place)
        size = array.sizes["place"]
        traces.append(
            {
                "type": "heatmap",
                "x": typed(np.arange(size, dtype=np.float64)),
                "y": typed(np.arange(size, dtype=np.float64)),
                "z": typed(np.asarray(array.values, dtype=np.float32)),
                "xaxis": x,
                "yaxis": y,
                "coloraxis": "coloraxis",
                "hoverongaps": False,
                "hoverinfo": "none" if look.host == "page" else "x+y+z",
                "meta": {"run": run, "role": "map"},
            }
        )
        wanted = [0, *layer_ticks(size - 1, [0] * (size - 1))[::-1]]
        ticks = spaced(wanted, apart=_NUMBER * size / (_PLOT_WIDTH[look.host] * width))
        if len(shown) > 1:  # the last would touch the first of the next map
            ticks = [tick for tick in ticks if tick < 0.85 * size]
        texts = ["emb" if tick == 0 else str(tick) for tick in ticks]
        down = spaced(wanted, apart=size / 9)
        named = place == 0 or size != next(iter(shown.values())).sizes["place"]
        ends = [-0.5, size - 0.5]
        layout |= {
            long_name(x): axis(
                look,
                ticks=True,
                title="sublayers passed",
                domain=[start, min(start + width, 1.0)],
                range=ends,
                tickvals=ticks,
                ticktext=texts,
                anchor=y,
            ),
            long_name(y): axis(
                look,
                range=ends[::-1],
                tickvals=down,
                ticktext=["emb" if tick == 0 else str(tick) for tick in down],
                showticklabels=named,
                anchor=x,
            ),
        }
        maps.append(
            {"run": run, "axis": x[1:], "slot": look.slot(run, order), "name": shortened(data.names[run], 20)}
        )
        if look.host == "alone":
            text = plotly_text(data.names[run])
            at = {
                "xref": "paper",
                "yref": "paper",
                "x": start,
                "y": 1,
                "xanchor": "left",
                "yanchor": "bottom",
            }
            layout["annotations"].append(
                {"text": text, **at, "showarrow": False, "font": {"size": 12, "color": look.theme["text"]}}
            )
    layout["meta"] = {"panel": "lens", "show": "cka", "titles": maps, "runs": _described(data)}
    return {"data": traces, "layout": layout}


def _described(data: Labelled) -> dict[str, Any]:
    """What hover text needs of each run."""
    return {
        run: {
            "names": [str(name) for name in array["place_name"].values],
            "interval": [
                float(f"{half:.3g}") if np.isfinite(half) else None
                for half in (array["interval"].values if "interval" in array.coords else ())
            ],
            "step": array.attrs["sweep_step"],
        }
        for run, array in data.arrays.items()
    }
