"""One cell of depth attention over steps, drawn by plotly: its weight with the spread, or its contribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, step_axis, with_alpha
from depthscope.figures.names import plotly_text
from depthscope.figures.ticks import round_ticks, short_number
from depthscope.figures.typed import typed


def cell_series_plotly(
    data: Labelled, *, look: Look, part: str = "weight", end: int | None = None
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of one part of `cell_series_data`: ``weight`` or ``contribution``.

    Both parts get the same value range. `end` is the step at which the time axis ends.
    """
    order = list(data.arrays)
    newest = [int(array["step"].values[-1]) for array in data.arrays.values()]
    last = max(newest + ([] if end is None else [end]), default=0) or 1
    traces: list[dict[str, Any]] = []
    uniform: float | None = None
    for run, array in data.arrays.items():
        x = np.asarray(array["step"].values, dtype=np.float64)
        y = np.asarray(array.sel(part=part).values, dtype=np.float64)
        colour = look.colour(run, order)
        spread = np.asarray(array.sel(part="spread").values, dtype=np.float64)
        if part == "weight" and np.isfinite(spread).any():
            traces.append(_band(run, x, y - spread, y + spread, colour))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plotly_text(data.names.get(run, run)),
                "x": typed(x),
                "y": typed(y),
                "line": {"color": colour, "width": 2},
                "hoverinfo": "none" if look.host == "page" else "x+y",
                "meta": {"run": run, "role": "line"},
            }
        )
        uniform = 1 / int(array["n_sources"].values)
    value_range = series_range(data)
    ticks = round_ticks(value_range[0], value_range[1], 4)
    layout = frame(look, left=40, top=16, right=16, bottom=36)
    layout |= {
        "showlegend": False,
        "xaxis": step_axis(look, last, 5),
        "yaxis": axis(
            look,
            grid=True,
            range=value_range,
            tickvals=ticks,
            ticktext=[short_number(tick).replace("-", "−") for tick in ticks],
        ),
        "meta": {
            "panel": "series",
            "part": part,
            "cells": {run: _cell(array) for run, array in data.arrays.items()},
        },
    }
    if part == "weight" and uniform is not None:
        layout |= _uniform(uniform, value_range, _ends_above(data, uniform), look)
    if any(trace["meta"]["role"] == "band" for trace in traces):
        layout["annotations"].append(_words("band ± 1 std over tokens", 0.02, 1, "top", look, yref="paper"))
    return {"data": traces, "layout": layout}


def series_range(data: Labelled) -> list[float]:
    """Return one value range for weight, its band and contribution, 0 included."""
    ends = [0.0]
    for array in data.arrays.values():
        weight, spread = (np.asarray(array.sel(part=part).values) for part in ("weight", "spread"))
        band = np.nan_to_num(spread)
        for values in (weight - band, weight + band, array.sel(part="contribution").values):
            finite = values[np.isfinite(values)]
            ends += [float(finite.min()), float(finite.max())] if finite.size else []
        ends.append(1.15 / int(array["n_sources"].values))
    low, high = min(ends), max(ends)
    room = 0.05 * ((high - low) or 1.0)
    return [low if low == 0 else low - room, high + room]


def _band(run: str, x: Any, low: Any, high: Any, colour: str) -> dict[str, Any]:
    kept = np.isfinite(low) & np.isfinite(high)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": typed(np.concatenate([x[kept], x[kept][::-1]])),
        "y": typed(np.concatenate([low[kept], high[kept][::-1]])),
        "fill": "toself",
        "fillcolor": with_alpha(colour, 0.18),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"run": run, "role": "band"},
    }


def _ends_above(data: Labelled, uniform: float) -> bool:
    """Return whether the weights end above uniform: its name then stands below the line, out of their way."""
    ends = [float(array.sel(part="weight").values[-1]) for array in data.arrays.values()]
    return all(end >= uniform for end in ends)


def _uniform(uniform: float, value_range: list[float], above: bool, look: Look) -> dict[str, Any]:
    """Draw the weight that every source has at uniform routing, with its name at the right end."""
    room = (uniform - value_range[0]) / (value_range[1] - value_range[0])
    line = {"color": look.theme["text-muted"], "width": 1, "dash": "3px,3px"}
    ends = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": uniform, "y1": uniform}
    words = f"uniform 1/{round(1 / uniform)}"
    anchor = "top" if above and room > 0.12 else "bottom"
    return {
        "shapes": [{"type": "line", **ends, "line": line}],
        "annotations": [_words(words, 0.98, uniform, anchor, look, yref="y")],
    }


def _words(text: str, x: float, y: float, anchor: str, look: Look, *, yref: str) -> dict[str, Any]:
    return {
        "text": text,
        "xref": "paper",
        "yref": yref,
        "x": x,
        "y": y,
        "xanchor": "left" if x < 0.5 else "right",
        "yanchor": anchor,
        "showarrow": False,
        "font": {"size": 12, "color": look.theme["text-muted"]},
    }


def _cell(array: Any) -> dict[str, Any]:
    return {
        "target": int(array["target"].values),
        "source": int(array["source"].values),
        "target_name": str(array["target_name"].values),
        "source_name": str(array["source_name"].values),
    }
