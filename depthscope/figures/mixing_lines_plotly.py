"""Mixing of several runs in one chart, drawn by plotly: one read over origins, or one entry over steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame
from depthscope.figures.names import plotly_text
from depthscope.figures.origin_axis import STRIPS, OriginAxis
from depthscope.figures.step_lines import end_label, step_lines
from depthscope.figures.ticks import round_ticks, short_number
from depthscope.figures.typed import typed

_PLOT_WIDTH = 420.0
"""px of the chart of a read in the smallest window, margins excluded."""
_MOST_MARKED = 40


def mixing_row_plotly(
    data: Labelled, *, look: Look, held: tuple[float, float] = (0.0, 0.0)
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `mixing_row_data`: shares over origins, one line a run.

    Embedding and constant stand apart, as points: they lie at the same places in runs of any depth. `held` is a
    range that the value axis covers in any case, so that it stands still while the step moves.
    """
    order = list(data.arrays)
    deepest = max((array.sizes["origin"] - 2 for array in data.arrays.values()), default=1)
    places = OriginAxis(layers=deepest)
    low, high = value_range([*(array.values for array in data.arrays.values()), np.array(held)])
    traces: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for run, array in data.arrays.items():
        own = OriginAxis(layers=array.sizes["origin"] - 2)
        colour = look.colour(run, order)
        values = np.asarray(array.values, dtype=np.float64)
        for strip in STRIPS:
            columns = own.columns(strip)
            outer = {"embedding": [places.middle(0)], "constant": [places.middle(deepest + 1)]}
            x = np.array(outer.get(strip, np.arange(columns.start, columns.stop)), dtype=np.float64)
            marked = strip != "sublayers" or own.layers <= _MOST_MARKED
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if marked else "lines",
                    "name": plotly_text(data.names.get(run, run)),
                    "showlegend": strip == "sublayers",
                    "x": typed(x),
                    "y": typed(values[columns]),
                    "line": {"color": colour, "width": 2, "dash": look.dash(run, order)},
                    "marker": {
                        "size": 7 if strip != "sublayers" else 4,
                        "symbol": "circle" if strip == "sublayers" else "diamond",
                        "color": colour,
                    },
                    "hoverinfo": "none" if look.host == "page" else "x+y+name",
                    "meta": {"run": run, "role": strip, "first": columns.start},
                }
            )
        labels.append(end_label(run, values[~np.isnan(values)], data.names, look, order))
    ticks = round_ticks(low, high, 4)
    positions, texts = places.ticks(_PLOT_WIDTH)
    zero = {"color": look.theme["chart-axis"], "width": 1}
    layout = frame(look, left=44, top=16, right=104, bottom=36)
    layout |= {
        "xaxis": axis(
            look,
            ticks=True,
            title="origin",
            range=[places.ends[0] - 0.3, places.ends[1] + 0.3],
            tickvals=positions,
            ticktext=texts,
        ),
        "yaxis": axis(
            look,
            grid=True,
            range=[low, high],
            tickvals=ticks,
            ticktext=[short_number(tick).replace("-", "−") for tick in ticks],
        ),
        "shapes": [
            {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "line": zero}
        ],
        "meta": {
            "panel": "mixing-row",
            "share": data.attributes["share"],
            "focus": look.focus,
            "labels": labels,
            "rows": {
                run: {
                    "step": int(array["step"].values),
                    "target_name": str(array["target_name"].values),
                    "origin_names": array["origin_name"].values.tolist(),
                }
                for run, array in data.arrays.items()
            },
        },
    }
    return {"data": traces, "layout": layout}


def mixing_series_plotly(data: Labelled, *, look: Look, end: int | None = None) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `mixing_series_data`: one line a run over steps."""
    lines = {
        run: (
            np.asarray(array["step"].values, dtype=np.float64),
            np.asarray(array.values, dtype=np.float64),
        )
        for run, array in data.arrays.items()
    }
    ends = value_range(values for _, values in lines.values())
    figure = step_lines(lines, data.names, look=look, value_range=ends, end=end)
    figure["layout"]["meta"] |= {
        "panel": "mixing-series",
        "entries": {
            run: {
                "target": int(array["target"].values),
                "origin": int(array["origin"].values),
                "target_name": str(array["target_name"].values),
                "origin_name": str(array["origin_name"].values),
            }
            for run, array in data.arrays.items()
        },
    }
    return figure


def value_range(arrays: Iterable[npt.NDArray[np.float64]]) -> tuple[float, float]:
    """Return the range of a value axis that holds all finite values, and 0."""
    ends = [0.0]
    for values in arrays:
        finite = values[np.isfinite(values)]
        ends += [float(finite.min()), float(finite.max())] if finite.size else []
    low, high = min(ends), max(ends)
    room = 0.06 * ((high - low) or 1.0)
    return (low - room if low < 0 else 0.0), high + room
