"""Block boundaries, the answers: from a panel's ask to what the panel shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from depthscope.app.absent import definition, reasons_by_name, why_empty
from depthscope.app.answer import Answer
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    MOST_BOUNDARY_RUNS,
    BoundaryOptions,
    Labelled,
    Look,
    Show,
    block_boundaries_data,
    block_boundaries_plotly,
    theme,
)

_TITLES = {
    "folded": "State by position in block",
    "sums": "State at block ends",
    "reset": "Reset over construction ratio",
    "read": "Read change at boundaries",
}
_NOTES = {
    "folded": "rms, one line a block, the later the stronger",
    "sums": "rms of b_n",
    "reset": "1 = uncorrelated writes",
    "read": "after over before",
}
_QUANTITIES = {"folded": "state_rms", "sums": "state_rms", "reset": "state_rms", "read": "read_rms"}


def boundary_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int], *, show: Show) -> Answer:
    """Answer for one panel: the folded profile at the step shown, or a number of each boundary over steps."""
    data = block_boundaries_data(runs, BoundaryOptions(show=show, step=ask.step))
    title, quantity = _TITLES[show], _QUANTITIES[show]
    if not data.arrays:
        return Answer(title=title, note=_NOTES[show], empty=why_empty(data, quantity))
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    few = f"the first {MOST_BOUNDARY_RUNS} runs" if len(data.arrays) > MOST_BOUNDARY_RUNS else ""
    return Answer(
        title=title,
        note=_NOTES[show],
        figure=block_boundaries_plotly(data, look=look, end=ask.end),
        absent=reasons_by_name(data) if show == "folded" else {},
        warning=few,
        definition=f"{data.attributes['title']}: {data.attributes['note']}\n{definition(quantity)}",
        key=_control_key(data) if show == "folded" else [],
    )


def _control_key(data: Labelled) -> list[Any]:
    if not any(array.attrs["control"] for array in data.arrays.values()):
        return []
    return [
        html.Span(
            [html.Span(className="began-mark"), "control, if writes were uncorrelated"], className="key"
        )
    ]
