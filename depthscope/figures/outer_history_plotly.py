"""Outer state over steps, drawn by plotly: a map of blocks by steps for each run, or one line a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits, limits_of
from depthscope.figures.look import Look, axis, frame, step_axis
from depthscope.figures.map_marks import column_edges, column_width, hatched
from depthscope.figures.names import shortened
from depthscope.figures.outer_marks import block_ticks
from depthscope.figures.step_lines import step_lines
from depthscope.figures.typed import typed

MOST_MAPS = 6
_GAP = 0.03
_GAP_WITH_TICKS = 0.06
_NARROWEST = 0.02
"""Share of the axis that a single record is drawn on."""


def outer_map_plotly(
    data: Labelled, *, look: Look, limits: Limits | None = None, end: int | None = None
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `outer_history_data` as maps: blocks downward, steps to the right."""
    shown = dict(list(data.arrays.items())[:MOST_MAPS])
    order = list(data.arrays)
    limits = limits if limits is not None else limits_of(shown.values())
    layout = frame(look, left=44, top=24, right=16, bottom=40)
    layout["coloraxis"] = {
        "colorscale": look.theme.sequential(),
        "showscale": look.host == "alone",
        **({} if limits is None else {"cmin": limits.low, "cmax": limits.high}),
    }
    newest = [int(array["step_end"].values[-1]) for array in shown.values()]
    last = float(max(newest + ([] if end is None else [end]), default=0) or 1)
    alike = len({array.sizes["entry"] for array in shown.values()}) <= 1
    gap = _GAP if alike else _GAP_WITH_TICKS
    traces: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    width = (1 - gap * (len(shown) - 1)) / max(len(shown), 1)
    for place, (run, array) in enumerate(shown.items()):
        suffix = "" if place == 0 else str(place + 1)
        edges, blocks = _edges(array, last), array.sizes["entry"]
        labelled = place == 0 or not alike
        traces.append(
            {
                "type": "heatmap",
                "x": typed(edges),
                "y": typed(np.arange(1, blocks + 1, dtype=np.float64)),
                "z": typed(np.asarray(array.values, dtype=np.float32)),
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
                "coloraxis": "coloraxis",
                "hoverongaps": False,
                "hoverinfo": "none" if look.host == "page" else "x+y+z",
                "meta": {"run": run, "role": "map"},
            }
        )
        if edges[-1] < last:
            traces += hatched([(float(edges[-1]), last, 0.5, blocks + 0.5)], suffix, look)
        left = place * (width + gap)
        layout[f"xaxis{suffix}"] = {
            **step_axis(look, last, 4 if len(shown) < 3 else 2),
            "domain": [left, min(left + width, 1.0)],
            "anchor": f"y{suffix}",
        }
        layout[f"yaxis{suffix}"] = axis(
            look,
            ticks=labelled,
            title="block" if place == 0 else "",
            range=[blocks + 0.5, 0.5],
            anchor=f"x{suffix}",
            showticklabels=labelled,
            tickvals=block_ticks(blocks),
        )
        maps.append(_entry(run, array, suffix, data, look, order))
    layout["meta"] = {
        "panel": "outer",
        "part": "map",
        "maps": maps,
        "left_out": len(data.arrays) - len(shown),
    }
    return {"data": traces, "layout": layout}


def _edges(array: xr.DataArray, last: float) -> npt.NDArray[np.float64]:
    """Return the edges of the columns in steps, within the axis from 0 to `last`.

    A single record has no neighbour to tell its width: it gets a small share of the axis.
    """
    edges = column_edges(array)
    if edges.size == 2:
        half = _NARROWEST * last / 2
        middle = min(max(float(edges.mean()), half), last - half)
        return np.array([middle - half, middle + half])
    edges = np.clip(edges, 0.0, last)
    if last - edges[-1] <= column_width(array):
        edges[-1] = last  # the next record is not due yet
    return edges


def outer_line_plotly(data: Labelled, *, look: Look, end: int | None = None) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `outer_history_data` of a quantity without blocks: one line a run."""
    values = np.concatenate([array.values[0] for array in data.arrays.values()] or [np.empty(0)])
    finite = values[np.isfinite(values)]
    high = 1.08 * float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    lines = {
        run: (
            np.asarray(array["step_end"].values, dtype=np.float64),
            np.asarray(array.values[0], dtype=np.float64),
        )
        for run, array in data.arrays.items()
    }
    figure = step_lines(lines, data.names, look=look, value_range=(0.0, high), end=end)
    figure["layout"]["meta"] |= {"panel": "outer", "part": "line"}
    return figure


def _entry(
    run: str, array: xr.DataArray, suffix: str, data: Labelled, look: Look, order: list[str]
) -> dict[str, Any]:
    """Describe a map for what the page draws over it."""
    return {
        "run": run,
        "slot": look.slot(run, order),
        "name": shortened(data.names.get(run, run), 24),
        "axis": suffix,
        # The run may stand at a newer step of another stream; its cursor is drawn up to there.
        "last": max(int(array["step_end"].values[-1]), int(array.attrs["last_step"] or 0)),
    }
