"""Depth profile, drawn by plotly: lines are runs, markers tell attention from MLP, bands are residual blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.bands import band_names, band_shapes, banded_run
from depthscope.figures.depth_profile import NO_STEP, profile_axis
from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, with_alpha
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import layer_ticks, short_number
from depthscope.figures.typed import typed
from depthscope.figures.unusual import MARK_AXIS, Unusual, marks, together
from depthscope.figures.value_axis import ValueAxis

MOST_LINES = 60


def depth_profile_plotly(
    data: Labelled, *, look: Look, log: bool = True, end_labels: bool = True
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `depth_profile_data`."""
    shown = dict(list(data.arrays.items())[:MOST_LINES])
    order = list(shown)
    normalised = len({array.sizes["layer"] for array in shown.values()}) > 1
    values = profile_axis(data, log=log)
    traces: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    unusual: list[Unusual] = []
    for run, array in shown.items():
        x = _places(array, normalised)
        traces += _pins(run, array, x, look, order, labels, data.names, values)
        traces.append(_line(run, array, x, look, order, data.names, values))
        step = int(array["step"].values[0])
        labels.append(_label(run, array, 0, look, order, shortened(data.names.get(run, run), 22)))
        if step != NO_STEP:
            drawn, counts = marks(
                x,
                np.asarray(array.values[0], dtype=np.float64),
                np.asarray(array["reachable"].values),
                log=values.log,
                colour=look.colour(run, order),
                meta={"run": run, "step": step},
            )
            traces += drawn
            unusual.append(counts)
    for text, reference in data.references.items():
        traces.append(_reference(reference, normalised, look, text))
        end = float(reference.values[-1])
        labels.append({"run": None, "slot": None, "text": text, "y": end, "pin": True})
    banded = banded_run(data)
    layout = frame(look, left=36, top=20, right=104 if end_labels else 16, bottom=40)
    layout |= {
        "xaxis": _depth_axis(shown, banded, normalised, look),
        "yaxis": axis(look, grid=True, **values.plotly()),
        "yaxis2": dict(MARK_AXIS),
        "shapes": band_shapes(banded, normalised, look) + _zero(data, look),
        "meta": {
            "panel": "profile",
            "labels": labels if end_labels else [],
            "focus": look.focus,
            "bands": band_names(banded, normalised),
            "note": values.note,
            "normalised": normalised,
            "layers": {run: _layers(array) for run, array in shown.items()},
            "log": values.log,
            "signed": data.attributes["signed"],
            "unusual": together(unusual).words(),
            "steps": {run: int(array["step"].values[0]) for run, array in shown.items()},
        },
    }
    return {"data": traces, "layout": layout}


def _places(array: xr.DataArray, normalised: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    layer = np.asarray(array["layer"].values, dtype=np.float64)
    return (layer - 0.5) / layer.size if normalised else layer


def _line(
    run: str,
    array: xr.DataArray,
    x: Any,
    look: Look,
    order: list[str],
    names: Mapping[str, str],
    values: ValueAxis,
) -> dict[str, Any]:
    colour = look.colour(run, order)
    hollow = look.theme["surface"]
    kinds = array["layer_kind"].values
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plotly_text(names.get(run, run)),
        "x": typed(x),
        "y": typed(values.drawable(array.values[0])),
        "line": {"color": colour, "width": 2, "dash": look.dash(run, order)},
        "marker": {
            "size": 6,
            "symbol": ["square" if kind == "other" else "circle" for kind in kinds],
            "color": [hollow if kind == "mlp" else colour for kind in kinds],
            "line": {"color": colour, "width": 1.5},
        },
        "hoverinfo": "none",
        "meta": {"run": run, "role": "line", "step": int(array["step"].values[0])},
    }
    if look.host == "alone":
        trace |= {
            "hoverinfo": "text",
            "hovertemplate": f"<b>%{{y:.3g}}</b> {plotly_text(names.get(run, run))}<br>"
            f"sublayer %{{x:.3g}}<br>step {trace['meta']['step']}<extra></extra>",  # type: ignore[index]
        }
    return trace


def _pins(
    run: str,
    array: xr.DataArray,
    x: Any,
    look: Look,
    order: list[str],
    labels: list[dict[str, Any]],
    names: Mapping[str, str],
    values: ValueAxis,
) -> list[dict[str, Any]]:
    """Draw pinned steps thin, the older the fainter."""
    traces = []
    pinned = sorted(range(1, array.sizes["moment"]), key=lambda moment: int(array["step"].values[moment]))
    for rank, moment in enumerate(pinned):
        step = int(array["step"].values[moment])
        if step == NO_STEP:
            continue
        alpha = 0.75 if len(pinned) == 1 else 0.45 + 0.30 * rank / (len(pinned) - 1)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{plotly_text(names.get(run, run))} at {step}",
                "x": typed(x),
                "y": typed(values.drawable(array.values[moment])),
                "line": {"color": with_alpha(look.colour(run, order), alpha), "width": 1},
                "hoverinfo": "none",
                "showlegend": look.host == "alone",
                "meta": {"run": run, "role": "pin", "step": step},
            }
        )
        labels.append(_label(run, array, moment, look, order, f"at {short_number(step)}"))
    return traces


def _label(
    run: str, array: xr.DataArray, moment: int, look: Look, order: list[str], text: str
) -> dict[str, Any]:
    """Describe the label at the end of a line: the last value that can be drawn."""
    values = np.asarray(array.values[moment], dtype=np.float64)
    finite = values[np.isfinite(values)]
    return {
        "run": run,
        "slot": look.slot(run, order),
        "text": text,
        "y": float(finite[-1]) if finite.size else None,
        "pin": moment > 0,
    }


def _reference(reference: xr.DataArray, normalised: bool, look: Look, text: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text,
        "x": typed(_places(reference, normalised)),
        "y": typed(reference.values),
        "line": {"color": look.theme["text-muted"], "width": 1, "dash": "3px,3px"},
        "hoverinfo": "none",
        "meta": {"role": "reference", "text": text},
    }


def _zero(data: Labelled, look: Look) -> list[dict[str, Any]]:
    """Draw the line of no difference; other profiles have no zero line."""
    if data.attributes["mode"] != "difference":
        return []
    line = {"color": look.theme["chart-axis"], "width": 1}
    return [{"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "line": line}]


def _depth_axis(
    arrays: Mapping[str, xr.DataArray], banded: xr.DataArray | None, normalised: bool, look: Look
) -> dict[str, Any]:
    if normalised:
        ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
        return axis(look, ticks=True, title="depth, share of the sublayers", range=[0, 1], tickvals=ticks)
    one = banded if banded is not None else next(iter(arrays.values()), None)
    layers = 1 if one is None else one.sizes["layer"]
    blocks = [0] * layers if one is None else one["residual_block"].values.tolist()
    return axis(
        look,
        ticks=True,
        title="sublayer",
        range=[0.5, layers + 0.5],
        tickvals=layer_ticks(layers, blocks),
    )


def _layers(array: xr.DataArray) -> dict[str, list[Any]]:
    """Describe the sublayers for hover text."""
    return {
        "kinds": [str(kind) for kind in array["layer_kind"].values],
        "blocks": [int(block) for block in array["residual_block"].values],
    }
