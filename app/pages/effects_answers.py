"""Effects, the answers: what cutting a path does to the loss, against its weight or its contribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from depthscope.analysis import RULE_IN_WORDS
from depthscope.app.absent import definition
from depthscope.app.answer import Answer
from depthscope.app.causal_command import causal_command
from depthscope.app.export import PageFigure
from depthscope.app.key import disagreement_keys
from depthscope.app.panel import empty_words
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    NO_EFFECTS,
    EffectsOptions,
    Labelled,
    Look,
    effect_pairs,
    effect_scatter_plotly,
    effects_data,
    shortened,
    theme,
)

EFFECT_DEFINITION = (
    "Loss change when cut: mean loss with one source of one target cut, minus the loss as it is, in nats a token; "
    "positive where the cut hurts. Mean over held-out batches, ± half of its 95 % t interval.\n"
    "Renormalise: the other weights are scaled to sum to 1. Zero: the source is replaced by 0. Mean: by its mean over "
    "tokens. Another batch: by its value there.\n"
    "Source: measured by `depthscope causal` on one checkpoint; arXiv 2606.13168 finds that the largest routing mass "
    "is not the largest effect."
)
_NORMS = (
    "Where a mix feeds only an RMSNorm, zero and renormalise agree up to the norm's eps over the mean square of the "
    "read: the norm takes away the size in which they differ."
)


def effects_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the scatter of all runs that have a sweep."""
    title = f"Effect against {ask.against}"
    data = effects_data(runs, effects_options(ask))
    drawn = {run: array for run, array in data.arrays.items() if array["shown"].values.any()}
    if not drawn:
        return Answer(title=title, empty=_none_measured(ask, runs, data), definition=EFFECT_DEFINITION)
    shown = Labelled(arrays=drawn, names=data.names, attributes=data.attributes)
    figure = effect_scatter_plotly(
        shown, look=Look(theme=theme(ask.theme), slots=slots, host="page"), log=ask.log
    )
    pairs = [effect_pairs(array, ask.against) for array in drawn.values()]
    counts = [int(sum(getattr(each, kind).sum() for each in pairs)) for kind in ("free", "costly")]
    damaged = [reason for reason in data.absent.values() if "is damaged" in reason]
    silent = [
        shortened(data.names[run], 16)
        for run in data.names
        if run not in drawn and data.absent.get(run) not in damaged
    ]
    lacking = "; ".join([*damaged, *([f"{', '.join(silent)}: {NO_EFFECTS}"] if silent else [])])
    return Answer(
        title=title,
        figure=figure,
        warning=lacking,
        definition="\n\n".join(
            (
                EFFECT_DEFINITION,
                RULE_IN_WORDS,
                _NORMS,
                definition("depth_attention"),
                definition("depth_contribution"),
            )
        ),
        key=disagreement_keys(counts[0], counts[1], RULE_IN_WORDS),
    )


def effects_options(ask: Ask) -> EffectsOptions:
    """Return what the figure shows for an ask."""
    return EffectsOptions(step=ask.step, cut=ask.cut, against=ask.against, least_distance=ask.least_distance)


EFFECTS_FIGURE = PageFigure(name="effects", options=lambda ask, runs: vars(effects_options(ask)))


def measured_elsewhere(data: Labelled, step: int | None) -> str:
    """Say where the effects were measured at another step than the page stands at."""
    other = {
        run: array.attrs["sweep_step"]
        for run, array in data.arrays.items()
        if array.attrs.get("sweep_step") is not None
        and step is not None
        and array.attrs["sweep_step"] != step
    }
    if not other:
        return ""
    steps = sorted(set(other.values()))
    told = ", ".join(f"{each:,}" for each in steps)
    return f"effects measured at step{'s' if len(steps) > 1 else ''} {told}, page at {step:,}"


def damaged_sweeps(data: Labelled) -> str:
    """Say which sweeps cannot be read, so that no effects stand beside what was recorded."""
    told = dict.fromkeys(str(array.attrs["sweep_damaged"]) for array in data.arrays.values())
    return "; ".join(filter(None, told))


def _none_measured(ask: Ask, runs: Sequence[CachedRun], data: Labelled) -> list[Any]:
    """Say that nothing is measured, and what to type for the first run."""
    if data.arrays:
        return empty_words(
            "No measured pair lies at this distance with a recorded weight.", "Lower the distance."
        )
    reasons = sorted({reason.partition(";")[0] for reason in data.absent.values()})
    damaged = [reason for reason in reasons if "is damaged" in reason]
    if damaged:
        return [html.P(f"{reason}.") for reason in damaged]
    mode = None if ask.cut == "any" else ask.cut
    run = next((each for each in runs if each.id == ask.ordered[0]), runs[0])
    reason = f"{reasons[0][:1].upper()}{reasons[0][1:]}." if len(reasons) == 1 else f"{NO_EFFECTS}."
    return [
        html.P(f"{reason} Weights describe routing; a cut shows its effect:"),
        html.P(html.Code(causal_command(run, mode=mode))),
    ]
