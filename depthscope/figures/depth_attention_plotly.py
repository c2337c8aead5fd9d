"""Depth attention, drawn by plotly: for each run weight map, entropy bars, contribution map, mass below, and effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.attention_axes import MASS_TOP, RunAxes, numbered
from depthscope.figures.attention_marks import gap_lines, hatched, kind_dots, partial_marks
from depthscope.figures.depth_attention import PARTS, attention_limits
from depthscope.figures.effects import effect_limits
from depthscope.figures.effects_plotly import effect_map_traces
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits
from depthscope.figures.look import Look, frame, with_alpha
from depthscope.figures.names import plotly_text
from depthscope.figures.typed import typed

_FEW_SOURCES = 3
_MOST_APART = 60
_BETWEEN_RUNS = 0.05


def depth_attention_plotly(
    data: Labelled, *, look: Look, limits: Mapping[str, Limits] | None = None
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `depth_attention_data`; the app draws one run a figure.

    A run with a sweep has a third map, of its effects. `limits` are the ends of
    the colour scales by part (weight, contribution, effect); None takes them from the runs drawn.
    """
    signed = {"weight": bool(data.attributes["signed"]), "contribution": True}
    arrays = list(data.arrays.values())
    if limits is None:
        found = {part: attention_limits(arrays, part, signed=signed[part]) for part in PARTS}
        found["effect"] = effect_limits([array["effect"] for array in arrays if "effect" in array.coords])
        limits = {part: ends for part, ends in found.items() if ends is not None}
    layout = frame(look, left=52, top=22, right=14, bottom=38)
    layout |= {"bargap": 0.35, "showlegend": False}
    for number, part in enumerate(PARTS):
        layout[numbered("coloraxis", number)] = _colours(signed[part], limits.get(part), look)
    layout[numbered("coloraxis", len(PARTS))] = _colours(True, limits.get("effect"), look)
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    width = (1 - _BETWEEN_RUNS * (len(arrays) - 1)) / max(len(arrays), 1)
    for place, (run, array) in enumerate(data.arrays.items()):
        left = place * (width + _BETWEEN_RUNS)
        axes = RunAxes(place, left, width, wide=array.sizes["source"] > 12, effect="effect" in array.coords)
        layout |= axes.described(array, look, mass=_mass_range(arrays))
        traces += _traces(run, array, axes, look)
        shapes += gap_lines(array, axes.weight, axes.rows, look)
        shapes += gap_lines(array, axes.contribution, axes.rows, look)
        if "effect" in array.coords:
            traces += _effects(run, array, axes, look)
            shapes += gap_lines(array, axes.effect, axes.rows, look)
            words = (
                f"effect, step {array.attrs['sweep_step']:,}"
                if array.attrs["sweep_step"] is not None
                else "effect"
            )
            head = _note(words, axes.domain(axes.effect)[0], 1.0, look, colour="text-secondary", shift=4)
            notes.append(head)
        notes += _words(axes, look, "spread" if data.attributes["mode"] == "spread" else "weight")
        if look.host == "alone":
            name = plotly_text(data.names.get(run, run))
            notes.append(_note(name, left, 1.0, look, shift=20, colour="text"))
            layout["margin"]["t"] = 42
    layout |= {
        "shapes": shapes,
        "annotations": notes,
        "meta": {
            "panel": "attention",
            "signed": signed["weight"],
            "view": data.attributes["mode"],
            "maps": {run: _described(array) for run, array in data.arrays.items()},
        },
    }
    return {"data": traces, "layout": layout}


def _traces(run: str, array: xr.DataArray, axes: RunAxes, look: Look) -> list[dict[str, Any]]:
    bar = look.theme["border-control"]
    entropy = np.asarray(array["entropy"].values, dtype=np.float64)
    few = np.asarray(array["n_sources"].values) <= _FEW_SOURCES
    traces: list[dict[str, Any]] = []
    for number, (part, x) in enumerate(zip(PARTS, (axes.weight, axes.contribution), strict=True)):
        traces.append(
            {
                "type": "heatmap",
                "x": typed(np.arange(array.sizes["source"], dtype=np.float64)),
                "y": typed(np.arange(array.sizes["target"], dtype=np.float64)),
                "z": typed(np.asarray(array.sel(part=part).values, dtype=np.float32)),
                "xaxis": x,
                "yaxis": axes.rows,
                "coloraxis": numbered("coloraxis", number),
                "hoverongaps": False,
                "hoverinfo": "none" if look.host == "page" else "x+y+z",
                "meta": {"run": run, "role": part},
            }
        )
        traces += hatched(~np.asarray(array["reachable"].values), (x, axes.rows), run, look)
        traces += partial_marks(array, (x, axes.rows), run, look, cased=number == 0)
        traces.append(
            {
                "type": "bar",
                "x": typed(np.arange(array.sizes["source"], dtype=np.float64)),
                "y": typed(np.asarray(array["mass"].sel(part=part).values, dtype=np.float64)),
                "xaxis": x,
                "yaxis": axes.mass,
                **_touching(array.sizes["source"]),
                "marker": {"color": bar, "line": {"width": 0}},
                "hoverinfo": "none" if look.host == "page" else "x+y",
                "meta": {"run": run, "role": f"mass-{part}"},
            }
        )
    traces.append(
        {
            "type": "bar",
            "orientation": "h",
            **_touching(entropy.size),
            "x": typed(entropy),
            "y": typed(np.arange(entropy.size, dtype=np.float64)),
            "xaxis": axes.entropy,
            "yaxis": axes.rows,
            "marker": {"color": [with_alpha(bar, 0.4) if row else bar for row in few], "line": {"width": 0}},
            "hoverinfo": "none" if look.host == "page" else "x+y",
            "meta": {"run": run, "role": "entropy"},
        }
    )
    return traces + kind_dots(array, (axes.gutter, axes.rows), run, look)


def _effects(run: str, array: xr.DataArray, axes: RunAxes, look: Look) -> list[dict[str, Any]]:
    """Return the map of effects."""
    effect = np.asarray(array["effect"].values, dtype=np.float64)
    held = xr.DataArray(
        effect,
        dims=("target", "source"),
        coords={"reachable": array["reachable"], "interval": array["effect_interval"]},
    )
    color = numbered("coloraxis", len(PARTS))
    return effect_map_traces(run, held, (axes.effect, axes.rows), look, coloraxis=color)


def _touching(count: int) -> dict[str, float]:
    """Many bars have no gaps: rounded to pixels, these would be stripes."""
    return {"width": 1.0} if count > _MOST_APART else {}


def _colours(signed: bool, limits: Limits | None, look: Look) -> dict[str, Any]:
    ends = {} if limits is None else {"cmin": limits.low, "cmax": limits.high}
    scale = look.theme.diverging() if signed else look.theme.sequential()
    return {"colorscale": scale, "showscale": False, **ends}


def _mass_range(arrays: list[xr.DataArray]) -> list[float]:
    """One scale for the bars of all runs, left and right."""
    values = [np.asarray(array["mass"].values) for array in arrays]
    low = min([0.0, *(float(value.min()) for value in values if value.size)])
    high = max([0.0, *(float(value.max()) for value in values if value.size)])
    return [low, high if high > low else low + 1.0]


def _words(axes: RunAxes, look: Look, left_map: str) -> list[dict[str, Any]]:
    heads = [(axes.weight, left_map), (axes.entropy, "entropy"), (axes.contribution, "contribution")]
    notes = [
        _note(text, axes.domain(name)[0], 1.0, look, colour="text-secondary", shift=4) for name, text in heads
    ]
    left = axes.domain(axes.gutter)[0]
    return [
        *notes,
        {**_note("target", left, 1.0, look, shift=4), "xanchor": "right", "xshift": -4},
        {**_note("mass", left, MASS_TOP / 2, look), "xanchor": "right", "yanchor": "middle", "xshift": -4},
    ]


def _note(
    text: str, x: float, y: float, look: Look, *, shift: int = 0, colour: str = "text-muted"
) -> dict[str, Any]:
    return {
        "text": text,
        "xref": "paper",
        "yref": "paper",
        "x": x,
        "y": y,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": shift,
        "showarrow": False,
        "font": {"size": 12, "color": look.theme[colour]},
    }


def _described(array: xr.DataArray) -> dict[str, Any]:
    """What hover text and the mark of the selected cell need."""
    return {
        "step": int(array["step"].values),
        "targets": array["target"].values.tolist(),
        "target_names": array["target_name"].values.tolist(),
        "source_names": array["source_name"].values.tolist(),
        "n_sources": array["n_sources"].values.tolist(),
        "partial": array["partial"].values.tolist(),
        "measured": array.attrs["measured"],
    }
