"""The logit lens token by token, drawn by plotly: depth downward, the sequence to the right."""

from __future__ import annotations

from typing import Any

import numpy as np

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import Limits, limits_of
from depthscope.figures.look import Look, axis, frame
from depthscope.figures.ticks import layer_ticks, round_ticks, short_number
from depthscope.figures.typed import typed


def lens_tokens_plotly(data: Labelled, *, look: Look) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of the first run of `lens_tokens_data`."""
    run, array = next(iter(data.arrays.items()))
    depth, positions = array.shape
    limits = token_limits(data)
    inner = [tick for tick in layer_ticks(depth - 1, [0] * (depth - 1)) if tick > depth / 6]
    rows = [0, *inner]
    columns = round_ticks(0, positions - 1, 8)
    layout = frame(look, left=44, top=8, right=16, bottom=36)
    layout |= {
        "showlegend": False,
        "coloraxis": {
            "colorscale": look.theme.sequential(),
            "showscale": look.host == "alone",
            "cmin": limits.low,
            "cmax": limits.high,
        },
        "xaxis": axis(
            look,
            ticks=True,
            title="token",
            range=[-0.5, positions - 0.5],
            tickvals=columns,
            ticktext=[short_number(tick) for tick in columns],
        ),
        "yaxis": axis(
            look,
            range=[depth - 0.5, -0.5],
            tickvals=rows,
            ticktext=["emb", *map(str, inner)],
        ),
        "meta": {
            "panel": "lens-tokens",
            "names": [str(name) for name in array["place_name"].values],
            "step": array.attrs["sweep_step"],
        },
    }
    trace = {
        "type": "heatmap",
        "x": typed(np.arange(positions, dtype=np.float64)),
        "y": typed(np.arange(depth, dtype=np.float64)),
        "z": typed(np.asarray(array.values, dtype=np.float32)),
        "customdata": typed(np.asarray(array["likeliest"].values, dtype=np.int32)),
        "coloraxis": "coloraxis",
        "hoverongaps": False,
        "hoverinfo": "none" if look.host == "page" else "x+y+z",
        "meta": {"run": run, "role": "map"},
    }
    return {"data": [trace], "layout": layout}


def token_limits(data: Labelled) -> Limits:
    """Return the colour range: from 0, where a state says what the output says, to the 99th percentile."""
    array = next(iter(data.arrays.values()))
    found = limits_of([array])
    high = 1.0 if found is None or found.high <= 0 else found.high
    return Limits(low=0.0, high=high, clips_high=bool((array.values > high).any()))
