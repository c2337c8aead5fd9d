"""Skip paths, drawn by plotly: arcs from source to target over the depth axis, one run above, one below."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, with_alpha
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import layer_ticks
from depthscope.figures.typed import typed

MOST_RUNS = 2
_POINTS = 33
_THINNEST, _THICKEST = 1.0, 7.0
_MOST_DOTS = 64


def skip_paths_plotly(data: Labelled, *, look: Look) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of the first two runs of `skip_paths_data`.

    An arc is as wide as its weight, dashed where the contribution is small (`weight_only`). Runs of different
    depth share an axis from 0, the embedding, to 1, the final read.
    """
    shown = dict(list(data.arrays.items())[:MOST_RUNS])
    order = list(data.arrays)
    depths = {run: int(array.attrs["layers"]) for run, array in shown.items()}
    normalised = len(set(depths.values())) > 1
    scales = {run: 1 / (depth + 1) if normalised else 1.0 for run, depth in depths.items()}
    traces: list[dict[str, Any]] = []
    sides: list[dict[str, Any]] = []
    for place, (run, array) in enumerate(shown.items()):
        side = 1 if place == 0 else -1
        traces += _arcs(run, array, side, scales[run], look, order)
        sides.append({"run": run, "side": side, "slot": look.slot(run, order), "paths": int(array.size)})
    if kinds_drawn(data):
        traces += [dots for run, array in list(shown.items())[:1] for dots in _sublayers(run, array, look)]
    layout = frame(look, left=36, top=20, right=36, bottom=40)
    layout |= {
        "showlegend": False,
        "xaxis": _depth_axis(shown, normalised, look),
        "yaxis": axis(
            look, range=[-1.08 if len(shown) > 1 else -0.06, 1.08], showticklabels=False, fixedrange=True
        ),
        "shapes": [_line(look)],
        "meta": {
            "panel": "arcs",
            "sides": sides,
            "steps": {run: array.attrs["step"] for run, array in shown.items()},
            "paths": {run: _described(array) for run, array in shown.items()},
        },
    }
    if look.host == "alone":
        layout["annotations"] = [_name(entry, data, look) for entry in sides]
    return {"data": traces, "layout": layout}


def _arcs(
    run: str, array: xr.DataArray, side: int, scale: float, look: Look, order: list[str]
) -> list[dict[str, Any]]:
    """The longest arc of the run is the highest: heights keep arcs apart and mean nothing else."""
    longest = _longest(array) * scale or 1.0
    colour = look.colour(run, order)
    traces = []
    # The widest last: thin arcs stay visible below them as halos would not.
    for place in reversed(range(array.size)):
        start = float(array["source_layer"].values[place]) * scale
        end = float(array["target"].values[place]) * scale
        weight = float(array.values[place])
        faint = bool(array["weight_only"].values[place])
        x, y = _arc(start, end, side * (end - start) / longest)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": typed(x),
                "y": typed(y),
                "line": {
                    "color": with_alpha(colour, 0.8),
                    "width": _THINNEST + (_THICKEST - _THINNEST) * min(weight, 1.0),
                    "dash": "4px,3px" if faint else "solid",
                },
                "hoverinfo": "none" if look.host == "page" else "text",
                "hovertext": f"{array['target_name'].values[place]} reads {array['source_name'].values[place]}: "
                f"{weight:.2f}",
                "meta": {"run": run, "role": "arc", "path": place},
            }
        )
    return traces


def _arc(start: float, end: float, height: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return half an ellipse from `start` to `end`."""
    angle = np.linspace(np.pi, 0, _POINTS)
    return (start + end) / 2 + (end - start) / 2 * np.cos(angle), height * np.sin(angle)


def _longest(array: xr.DataArray) -> float:
    """Return how many sublayers the longest arc spans."""
    return float(np.max(array["target"].values - array["source_layer"].values)) if array.size else 0.0


def kinds_drawn(data: Labelled) -> bool:
    """Return whether the axis has a dot for each sublayer: the runs drawn are equally deep, and not too deep."""
    depths = {int(array.attrs["layers"]) for array in list(data.arrays.values())[:MOST_RUNS]}
    return len(depths) == 1 and max(depths) <= _MOST_DOTS


def _sublayers(run: str, array: xr.DataArray, look: Look) -> list[dict[str, Any]]:
    """Put a dot for each sublayer on the axis: filled for attention, hollow for MLP."""
    kinds = array.attrs["layer_kind"]
    colour = look.theme["text-secondary"]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": typed(np.arange(1.0, len(kinds) + 1)),
            "y": typed(np.zeros(len(kinds))),
            "marker": {
                "symbol": ["circle" if kind in ("attention", "mlp") else "square" for kind in kinds],
                "size": 6,
                "color": [look.theme["surface"] if kind == "mlp" else colour for kind in kinds],
                "line": {"color": colour, "width": 1.2},
            },
            "hoverinfo": "skip",
            "meta": {"role": "kind", "run": run},
        }
    ]


def _depth_axis(shown: dict[str, xr.DataArray], normalised: bool, look: Look) -> dict[str, Any]:
    if normalised:
        return axis(
            look,
            ticks=True,
            title="depth, share of the sublayers",
            range=[-0.02, 1.02],
            tickvals=[0, 0.25, 0.5, 0.75, 1],
            ticktext=["embedding", "0.25", "0.5", "0.75", "output"],
        )
    first = next(iter(shown.values()), None)
    layers = 1 if first is None else int(first.attrs["layers"])
    blocks = list(first.attrs["residual_block"]) if first is not None else [0]
    ticks = [layer for layer in layer_ticks(layers, blocks) if 1 < layer < layers] if layers > 1 else []
    return axis(
        look,
        ticks=True,
        title="sublayer",
        range=[-0.6, layers + 1.6],
        tickvals=[0, *ticks, layers + 1],
        ticktext=["embedding", *map(str, ticks), "output"],
    )


def _line(look: Look) -> dict[str, Any]:
    ends = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
    return {"type": "line", "layer": "below", **ends, "line": {"color": look.theme["chart-axis"], "width": 1}}


def _described(array: xr.DataArray) -> list[dict[str, Any]]:
    """What hover text needs of each path."""
    names = ("target", "source", "target_name", "source_name", "distance", "distance_unit", "records")
    return [
        {
            "weight": float(array.values[place]),
            **{name: _plain(array[name].values[place]) for name in (*names, "contribution", "times_uniform")},
        }
        for place in range(array.size)
    ]


def _plain(value: Any) -> Any:
    """Return a numpy scalar as JSON has it: NaN becomes None."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not np.isfinite(plain) else plain


def _name(entry: dict[str, Any], data: Labelled, look: Look) -> dict[str, Any]:
    return {
        "text": plotly_text(shortened(data.names.get(entry["run"], entry["run"]), 24)),
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 1 if entry["side"] > 0 else 0,
        "xanchor": "left",
        "yanchor": "top" if entry["side"] > 0 else "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": look.theme["text"]},
    }
