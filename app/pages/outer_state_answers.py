"""Outer state, the answers: from a panel's ask to what the panel shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dash import html

from depthscope.app.absent import definition, reasons_by_name, why_empty
from depthscope.app.answer import Answer
from depthscope.app.key import scale_key
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    MOST_OUTER_MAPS,
    OUTER_MARKS,
    Labelled,
    Look,
    OuterHistoryOptions,
    OuterStateOptions,
    limits_of,
    outer_history_data,
    outer_line_plotly,
    outer_map_plotly,
    outer_state_data,
    outer_state_plotly,
    theme,
)
from depthscope.quantities import quantity as look_up


def outer_map_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the energy before the boundary norm over blocks and steps."""
    data = outer_history_data(runs, OuterHistoryOptions(quantity="outer_energy"))
    title = "Outer energy by block and step"
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, "outer_energy"))
    limits = limits_of(data.arrays.values())
    figure = outer_map_plotly(data, look=_look(ask, slots), limits=limits, end=ask.end)
    few = f"the first {MOST_OUTER_MAPS} runs" if figure["layout"]["meta"]["left_out"] else ""
    return Answer(
        title=title,
        note="before the norm",
        figure=figure,
        absent=reasons_by_name(data),
        warning=few,
        definition=definition("outer_energy"),
        key=[] if limits is None else [scale_key(figure["layout"]["coloraxis"]["colorscale"], limits)],
    )


def balance_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for carry against write by block at the step shown."""
    data = _at_step(ask, runs)
    title = "Carry against write"
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, "outer_energy"))
    return Answer(
        title=title,
        note=_when(data),
        figure=outer_state_plotly(data, look=_look(ask, slots), part="energy"),
        definition="\n\n".join(
            definition(name) for name in ("outer_energy", "outer_write_energy", "outer_carry_energy")
        ),
        key=[_mark_key(value) for value in ("energy", "write", "carry")],
    )


def gates_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the gates of reading and writing, beside where they began."""
    data = _at_step(ask, runs)
    title = "Gates"
    gated = {run: array for run, array in data.arrays.items() if array.sel(value="gate_read").notnull().any()}
    if not gated:
        empty = Labelled(
            arrays={}, names=data.names, absent={run: _no_gates(runs, run) for run in data.names}
        )
        return Answer(title=title, empty=why_empty(empty, "interface_gate"))
    shown = Labelled(arrays=gated, names=data.names, attributes=data.attributes)
    return Answer(
        title=title,
        note=_when(shown),
        figure=outer_state_plotly(shown, look=_look(ask, slots), part="gates"),
        definition=definition("interface_gate"),
        key=[_mark_key(value) for value in ("gate_read", "gate_write", "gate_read_initial")],
    )


def direct_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the amplitude of the embedding's direct path over steps."""
    data = outer_history_data(runs, OuterHistoryOptions(quantity="outer_direct"))
    title = "Direct path"
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, "outer_direct"))
    return Answer(
        title=title,
        note="amplitude through all norms, no share of the read",
        figure=outer_line_plotly(data, look=_look(ask, slots), end=ask.end),
        definition=definition("outer_direct"),
    )


def _mark_key(value: str) -> html.Span:
    mark = OUTER_MARKS[value]
    shape = "began-mark" if mark.shape == "tick" else f"marker {mark.shape}{' filled' * mark.filled}"
    return html.Span([html.Span(className=shape), mark.words], className="key")


def _at_step(ask: Ask, runs: Sequence[CachedRun]) -> Labelled:
    return outer_state_data(runs, OuterStateOptions(step=ask.step, baseline=ask.base, align=ask.align))


def _look(ask: Ask, slots: Mapping[str, int]) -> Look:
    return Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")


def _when(data: Labelled) -> str:
    steps = sorted({int(array["step"].values) for array in data.arrays.values()})
    return f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}"


def _no_gates(runs: Sequence[CachedRun], run: str) -> str:
    missing = next((entry.missing for entry in runs if entry.id == run), {})
    return missing.get("interface_gate", f"{look_up('interface_gate').label.lower()} was not recorded")
