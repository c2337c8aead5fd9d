"""One line a run over steps, drawn by plotly, with the runs' names at the lines' ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.figures.look import Look, axis, frame, step_axis
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import round_ticks, short_number
from depthscope.figures.typed import typed

Line: TypeAlias = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Steps and values, shape [points] each."""


def step_lines(
    lines: Mapping[str, Line],
    names: Mapping[str, str],
    *,
    look: Look,
    value_range: tuple[float, float],
    end: int | None = None,
) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `lines` by run id; ``layout.meta`` still lacks the kind of its panel.

    `end` is the step at which the time axis ends, if no line goes further.
    """
    order = list(lines)
    newest = [float(steps[-1]) for steps, _ in lines.values() if steps.size]
    last = max(newest + ([] if end is None else [float(end)]), default=0.0) or 1.0
    low, high = value_range
    ticks = round_ticks(low, high, 4)
    layout = frame(look, left=44, top=20, right=104, bottom=40)
    layout |= {
        "xaxis": step_axis(look, last, 5),
        "yaxis": axis(
            look,
            grid=True,
            range=[low, high],
            tickvals=ticks,
            ticktext=[short_number(tick).replace("-", "−") for tick in ticks],
        ),
        "meta": {
            "focus": look.focus,
            "labels": [end_label(run, values, names, look, order) for run, (_, values) in lines.items()],
        },
    }
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plotly_text(names.get(run, run)),
            "x": typed(steps),
            "y": typed(values),
            "line": {"color": look.colour(run, order), "width": 2, "dash": look.dash(run, order)},
            "hoverinfo": "none" if look.host == "page" else "x+y+name",
            "meta": {"run": run, "role": "line"},
        }
        for run, (steps, values) in lines.items()
    ]
    return {"data": traces, "layout": layout}


def end_label(
    run: str, values: npt.NDArray[np.float64], names: Mapping[str, str], look: Look, order: Sequence[str]
) -> dict[str, Any]:
    """Describe the run's name at the end of its line; it has no place where the last value is missing."""
    return {
        "run": run,
        "slot": look.slot(run, order),
        "text": shortened(names.get(run, run), 22),
        "y": float(values[-1]) if values.size and np.isfinite(values[-1]) else None,
        "pin": False,
    }
