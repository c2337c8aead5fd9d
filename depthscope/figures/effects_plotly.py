"""Effects, drawn by plotly for a page of their own: the scatter of all runs, and a map of each run beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.attention_axes import long_name, numbered, source_ticks, target_ticks
from depthscope.figures.attention_marks import gap_lines, hatched
from depthscope.figures.effect_scatter_plotly import effect_scatter_plotly
from depthscope.figures.effects import effect_limits
from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits
from depthscope.figures.look import Look, axis
from depthscope.figures.map_marks import hatched_boxes
from depthscope.figures.names import plotly_text
from depthscope.figures.typed import typed

_SCATTER = 0.42
"""Share of the width."""
_BETWEEN = 0.06
_MAP_PX = 300.0


def effects_plotly(data: Labelled, *, look: Look, log: bool = True) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `effects_data`: effect against weight, then one map a run."""
    figure = effect_scatter_plotly(data, look=look, log=log)
    layout = figure["layout"]
    arrays = list(data.arrays.values())
    limits = effect_limits(arrays)
    layout["xaxis"] |= {"domain": [0, _SCATTER], "anchor": "y"}
    layout["margin"] |= {"t": 42, "r": 80}
    layout["shapes"][0] |= {"x1": _SCATTER}
    layout["coloraxis"] = effect_colours(limits, look, shown=True)
    left = _SCATTER + 0.1
    width = (1 - left - _BETWEEN * (len(arrays) - 1)) / max(len(arrays), 1)
    notes = [_note("effect of each cut, nats a token", 0, look)]
    for place, (run, array) in enumerate(data.arrays.items()):
        start = left + place * (width + _BETWEEN)
        x, y = numbered("x", place + 1), numbered("y", place + 1)
        figure["data"] += effect_map_traces(run, array, (x, y), look)
        layout |= _axes(array, (x, y), [start, min(start + width, 1.0)], look)
        layout["shapes"] += gap_lines(array, x, y, look)
        notes.append(_note(plotly_text(data.names.get(run, run)), start, look))
    layout["annotations"] = notes
    return figure


def effect_map_traces(
    run: str, array: xr.DataArray, axes: tuple[str, str], look: Look, *, coloraxis: str = "coloraxis"
) -> list[dict[str, Any]]:
    """Return the map of a run's effects on `axes`: cells, hatching for what is unreachable, dots for unmeasured."""
    reachable = np.asarray(array["reachable"].values, dtype=bool)
    unmeasured = reachable & np.isnan(array.values)
    heat = {
        "type": "heatmap",
        "x": typed(np.arange(array.sizes["source"], dtype=np.float64)),
        "y": typed(np.arange(array.sizes["target"], dtype=np.float64)),
        "z": typed(np.asarray(array.values, dtype=np.float32)),
        "customdata": typed(np.asarray(array["interval"].values, dtype=np.float32)),
        "xaxis": axes[0],
        "yaxis": axes[1],
        "coloraxis": coloraxis,
        "hoverongaps": False,
        "hoverinfo": "none" if look.host == "page" else "x+y+z",
        "meta": {"run": run, "role": "effect"},
    }
    return [heat, *hatched(~reachable, axes, run, look), *unmeasured_marks(unmeasured, axes, run, look)]


def unmeasured_marks(
    mask: np.ndarray[Any, np.dtype[np.bool_]], axes: tuple[str, str], run: str, look: Look
) -> list[dict[str, Any]]:
    """Mark reachable cells without a measurement: near zero a map is as pale as its surface."""
    boxes = [(column - 0.5, column + 0.5, row - 0.5, row + 0.5) for row, column in np.argwhere(mask).tolist()]
    marks = hatched_boxes(boxes, axes, look, {"run": run})
    for mark in marks:
        mark["fillpattern"] = {**mark["fillpattern"], "shape": ".", "solidity": 0.3}
        mark["meta"] = {"run": run, "role": "unmeasured"}
    return marks


def effect_colours(limits: Limits | None, look: Look, *, shown: bool = False) -> dict[str, Any]:
    """Return the colour axis of effects: diverging, 0 in the middle."""
    ends = {} if limits is None else {"cmin": limits.low, "cmax": limits.high}
    bar = {"title": {"text": "nats"}, "thickness": 12, "outlinewidth": 0}
    return {
        "colorscale": look.theme.diverging(),
        "showscale": shown,
        **ends,
        **({"colorbar": bar} if shown else {}),
    }


def _axes(array: xr.DataArray, names: tuple[str, str], domain: list[float], look: Look) -> dict[str, Any]:
    ticks, texts = source_ticks(array, _MAP_PX)
    rows, labels = target_ticks(array)
    return {
        long_name(names[0]): axis(
            look,
            ticks=True,
            title=f"source {array.attrs['source_axis']}",
            domain=domain,
            range=[-0.5, array.sizes["source"] - 0.5],
            tickvals=ticks,
            ticktext=texts,
            anchor=names[1],
        ),
        long_name(names[1]): axis(
            look,
            ticks=True,
            range=[array.sizes["target"] - 0.5, -0.5],
            tickvals=rows,
            ticktext=labels,
            anchor=names[0],
        ),
    }


def _note(text: str, x: float, look: Look) -> dict[str, Any]:
    place = {"xref": "paper", "yref": "paper", "x": x, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, **place, "showarrow": False, "font": {"size": 12, "color": look.theme["text"]}}
