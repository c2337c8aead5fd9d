"""Loss, drawn by plotly: one line a run over steps, opened on what comes after the first steep tenth."""

from __future__ import annotations

from typing import Any

from depthscope.figures.beyond import Stretch, beyond_marks, beyond_words, stretches
from depthscope.figures.depth_profile_plotly import MOST_LINES
from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, step_axis
from depthscope.figures.loss import loss_axis
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import short_number
from depthscope.figures.typed import typed
from depthscope.figures.unusual import MARK_AXIS


def loss_plotly(data: Labelled, *, look: Look, end: int | None = None) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `loss_data`; `end` is the step at which the time axis ends."""
    shown = dict(list(data.arrays.items())[:MOST_LINES])
    order = list(shown)
    newest = [int(array["step"].values[-1]) for array in shown.values()]
    last = max(newest + ([] if end is None else [end]), default=0) or 1
    values = loss_axis(data)
    traces = []
    labels = []
    found: list[Stretch] = []
    for run, array in shown.items():
        name = shortened(data.names.get(run, run), 22)
        step = int(array["step"].values[-1])
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "name": plotly_text(data.names.get(run, run)),
            "x": typed(array["step"].values.astype("float64")),
            "y": typed(array.values),
            "line": {"color": look.colour(run, order), "width": 2, "dash": look.dash(run, order)},
            "hoverinfo": "none",
            "meta": {"run": run, "role": "line"},
        }
        if look.host == "alone":
            trace |= {
                "hoverinfo": "text",
                "hovertemplate": f"<b>%{{y:.4g}}</b> {trace['name']}<br>step %{{x}}<extra></extra>",
            }
        traces.append(trace)
        here = stretches(array.values, values)
        found += here
        traces += beyond_marks(
            array["step"].values.astype("float64"),
            array.values,
            here,
            colour=look.colour(run, order),
            meta={"run": run},
        )
        text = name if step >= max(newest) else f"{name} to {short_number(step)}"
        labels.append(
            {
                "run": run,
                "slot": look.slot(run, order),
                "text": text,
                "y": float(array.values[-1]),
                "pin": False,
            }
        )
    layout = frame(look, left=40, top=20, right=104, bottom=40)
    layout |= {
        "xaxis": step_axis(look, last, 3),
        "yaxis": axis(look, grid=True, **values.plotly()),
        "yaxis2": dict(MARK_AXIS),
        "meta": {
            "panel": "loss",
            "labels": labels,
            "focus": look.focus,
            "beyond": beyond_words(found, values),
        },
    }
    return {"data": traces, "layout": layout}
