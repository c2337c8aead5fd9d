"""Depth profile, the answers: from a panel's ask to what the panel shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from depthscope.app.absent import definition, reasons_by_name, why_empty
from depthscope.app.answer import Answer
from depthscope.app.key import hatch_key, scale_key
from depthscope.app.panel import empty_words
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    MOST_LINES,
    MOST_MAPS,
    NO_LOGARITHM,
    Labelled,
    Limits,
    Look,
    LossOptions,
    MapOptions,
    ProfileOptions,
    bands_note,
    comparison,
    depth_map_data,
    depth_map_plotly,
    depth_profile_data,
    depth_profile_plotly,
    heading,
    is_signed,
    limits_of,
    loss_data,
    loss_plotly,
    map_log,
    profile_panels,
    quantity_shown,
    sampled_words,
    shortened,
    theme,
)
from depthscope.quantities import QUANTITIES
from depthscope.quantities import quantity as look_up

READING = (
    "Each line is a run at the step shown, from its first sublayer to its last; "
    "each map is the same run over all steps, depth downward."
)


def profile_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the profile of the quantity chosen."""
    return _profile(ask, runs, slots, end_labels=True)


def gradient_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the profile beside it, of the gradient: what an export shows beside the quantity too."""
    quantity, mode = profile_panels(ask.metric, ask.mode)[1]
    return _profile(replace(ask, metric=quantity, mode=mode), runs, slots, end_labels=False)


def _profile(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int], *, end_labels: bool) -> Answer:
    title, note = heading(ask.metric, ask.mode)
    name = quantity_shown(ask.metric, ask.mode)
    base = next((run for run in runs if run.id == ask.base), None)
    note = _difference_note(ask, base) if ask.mode == "difference" and base else note
    note = f"{note}, at equal {_FOOTING[ask.align]}" if ask.align != "step" else note
    reason = _no_difference(ask, runs)
    if reason:
        return Answer(title=title, note=note, empty=empty_words(reason), definition=definition(name))
    options = ProfileOptions(
        quantity=ask.metric,
        mode=ask.mode,
        step=ask.step,
        pins=ask.pins,
        pinned_runs=[ask.focus] if len(runs) > 2 and ask.focus else [run.id for run in runs],
        baseline=ask.base,
        align=ask.align,
        focus=ask.focus,
        robust=ask.range != "full",
    )
    data = depth_profile_data(runs, options)
    if not data.arrays:
        return Answer(title=title, note=note, empty=why_empty(data, name), missing=_missing(data, name))
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    figure = depth_profile_plotly(data, look=look, log=ask.log, end_labels=end_labels)
    meta = figure["layout"]["meta"]
    note = "; ".join(
        filter(None, (note, sampled_words(data), meta["note"], bands_note(data) if end_labels else ""))
    )
    warnings = [meta["unusual"], _unequal_footing(ask, runs)]
    if len(data.arrays) > MOST_LINES:
        warnings.append(f"{MOST_LINES} of {len(data.arrays)} runs")
    return Answer(
        title=title,
        note=note,
        figure=figure,
        absent=reasons_by_name(data),
        warning=", ".join(filter(None, warnings)),
        definition=f"{definition(name)}\n{READING}" if end_labels else definition(name),
        missing=_missing(data, name),
    )


def map_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the maps."""
    name = quantity_shown(ask.metric, ask.mode)
    signed = is_signed(ask.metric, ask.mode)
    data = depth_map_data(runs, MapOptions(quantity=ask.metric, mode=ask.mode, baseline=ask.base))
    title = str(data.attributes["title"])
    base = next((run for run in runs if run.id == ask.base), None)
    note = _difference_note(ask, base) if ask.mode == "difference" and base else str(data.attributes["note"])
    note = (
        f"{note}, {NO_LOGARITHM}"
        if ask.log and not signed and data.arrays and not map_log(data, True)
        else note
    )
    reason = _no_difference(ask, runs)
    if reason or not data.arrays:
        words = empty_words(reason) if reason else why_empty(data, name)
        return Answer(title=title, note=note, empty=words, definition=definition(name))
    log = map_log(data, ask.log)
    limits = _limits(ask, data, log)
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    figure = depth_map_plotly(data, look=look, log=log, limits=limits, end=ask.end)
    meta = figure["layout"]["meta"]
    scale = "each map on its own scale" if limits is None else "one scale for all runs"
    left_out = f"the first {MOST_MAPS} of {len(data.arrays)} runs" if meta["left_out"] else ""
    crashed = [f"{run.name} crashed at step {run.last_step}" for run in runs if run.status == "crashed"]
    return Answer(
        title=title,
        note=", ".join(
            filter(None, (note, sampled_words(data), scale if len(data.arrays) > 1 or limits is None else ""))
        ),
        figure=figure,
        absent=reasons_by_name(data),
        warning=", ".join(filter(None, (left_out, *crashed, meta["unusual"]))),
        definition=definition(name),
        key=_key(figure, limits, log, _hatched(data, meta["partial"], runs)),
    )


def loss_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the loss panel."""
    data = loss_data(runs, LossOptions())
    title = str(data.attributes["title"])
    if not data.arrays:
        remedy = "Give it to the recorder with every step:"
        words = empty_words(
            "No loss was recorded." if data.absent else "No run is selected.",
            remedy,
            "recorder.step(loss=loss)",
        )
        return Answer(title=title, empty=words)
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    figure = loss_plotly(data, look=look, end=ask.end)
    return Answer(
        title=title,
        note=str(data.attributes["note"]),
        figure=figure,
        absent=reasons_by_name(data),
        warning=figure["layout"]["meta"]["beyond"],
        definition=_loss_definition(str(data.attributes["quantity"])),
    )


def _loss_definition(name: str) -> str:
    """Return what the loss is; an evaluation is named by the training loop, and defined there."""
    if name in QUANTITIES:
        return definition(name)
    return (
        f"the loss named {name}, in nats per token\n"
        "mean over the tokens of the evaluation, as the training loop took it\n"
        "Source: recorder.evaluation(...) in the training loop"
    )


_FOOTING = {"step": "step", "tokens": "tokens", "loss": "validation loss"}


def _no_difference(ask: Ask, runs: Sequence[CachedRun]) -> str:
    if ask.mode != "difference" or len(runs) > 1:
        return ""
    return "A difference needs a second run: select one in the drawer; the starred run is the baseline."


def _unequal_footing(ask: Ask, runs: Sequence[CachedRun]) -> str:
    """Say when equal steps are not equal numbers of tokens."""
    tokens = {run.config.get("tokens_per_step") for run in runs} - {None}
    return "tokens per step differ" if ask.align == "step" and len(tokens) > 1 else ""


def _difference_note(ask: Ask, base: CachedRun) -> str:
    return comparison(ask.metric, shortened(base.name, 20))


def _limits(ask: Ask, data: Labelled, log: bool) -> Limits | None:
    if ask.range == "own":
        return None
    signed = bool(data.attributes["signed"])
    return limits_of(data.arrays.values(), robust=ask.range == "shared", log=log, symmetric=signed)


def _missing(data: Labelled, name: str) -> dict[str, str]:
    """Say in the drawer, briefly, which runs lack the quantity."""
    label = look_up(name).label.partition(",")[0].lower()
    return {run: (f"no {label}" if run in data.absent else "") for run in data.names}


def _hatched(data: Labelled, partial: Sequence[str], runs: Sequence[CachedRun]) -> str:
    """Say what the hatching in the maps means; empty without any."""
    words = []
    if any(not array["reachable"].values.all() for array in data.arrays.values()):
        words.append("unreachable")
    if partial:
        live = all(run.status == "live" for run in runs if run.id in partial)
        words.append("not recorded yet" if live else "not recorded")
    return " or ".join(words)


def _key(figure: Mapping[str, Any], limits: Limits | None, log: bool, hatched: str) -> list[Any]:
    """Return the key in the panel's header: flat swatches with both ends written, and what hatching means."""
    parts: list[Any] = []
    if limits is not None:
        parts.append(scale_key(figure["layout"]["coloraxis"]["colorscale"], limits, log=log))
    if hatched:
        parts.append(hatch_key(hatched))
    return parts
