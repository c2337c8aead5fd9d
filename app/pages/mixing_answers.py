"""Mixing, the answers: from a panel's ask to what the panel shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import xarray as xr
from dash import html

from depthscope.analysis import CANCELS
from depthscope.app.absent import definition, reasons_by_name, why_empty
from depthscope.app.answer import Answer
from depthscope.app.key import hatch_key, kind_keys, scale_key
from depthscope.app.newest import of_newest
from depthscope.app.reading import CachedRun
from depthscope.app.reference import reference_step
from depthscope.app.state import Ask
from depthscope.figures import (
    SHARE_QUANTITY,
    Labelled,
    Limits,
    Look,
    MixingOptions,
    MixingRowOptions,
    MixingSeriesOptions,
    cancellation_top,
    drawn_kinds,
    mixing_data,
    mixing_limits,
    mixing_plotly,
    mixing_row_data,
    mixing_row_plotly,
    mixing_series_data,
    mixing_series_plotly,
    shortened,
    theme,
)

_OFF = 0.02
"""How far a row may sum from 1: bfloat16 leaves up to 0.01."""


def map_answer(
    ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int], *, keyed: bool = False
) -> Answer:
    """Answer for the map of one run; all runs of the ask share the colours and the scale of cancellation.

    `keyed`: the answer also fills the key, which speaks of all runs.
    """
    shown = next((run for run in runs if run.id == ask.shown), runs[0])
    quantity = SHARE_QUANTITY[ask.share]
    asked = options(ask, runs)
    data = mixing_data([run for run in runs if run is shown or _takes_part(run, ask)], asked)
    key = _key(ask, runs, list(mixing_data(runs, asked).arrays.values())) if keyed else []
    if shown.id not in data.arrays:
        recorded = "mixing_contribution" in shown.quantities
        return Answer(
            title=shortened(shown.name, 28) if recorded else "Mixing",
            empty=why_empty(replace(data, absent={shown.id: data.absent[shown.id]}), quantity),
            definition=definition(quantity),
            key=key,
        )
    array = data.arrays[shown.id]
    alone = replace(data, arrays={shown.id: array}, absent={})
    limits, top = _scales(ask, runs)
    told = [definition(quantity), definition("mixing_cancellation"), _sample(array)]
    return Answer(
        title=shortened(shown.name, 28),
        note=f"step {int(array['step'].values):,}",
        figure=mixing_plotly(alone, look=_look(ask, slots), limits=limits, top=top),
        warning=", ".join(filter(None, (_crashed(shown), _cancels(array), _incomplete(array)))),
        definition="\n\n".join(filter(None, told)),
        key=key,
    )


def row_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for one read of every run at the step shown."""
    asked = row_options(ask, runs)
    data = mixing_row_data(runs, asked)
    target = ask.entry[0]
    title = "Final read by origin" if target is None else f"Read of sublayer {target} by origin"
    quantity = SHARE_QUANTITY[ask.share]
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, quantity), definition=definition(quantity))
    newest = replace(asked, step=None, align="step")
    against = _against(ask, runs)
    return Answer(
        title=title,
        note=", ".join(filter(None, (ask.share, f"minus {against}" if against else "", _when(data)))),
        figure=mixing_row_plotly(data, look=_look(ask, slots), held=of_newest(_row_range, runs, newest)),
        absent=reasons_by_name(_without_baseline(data)),
        definition=definition(quantity),
    )


def series_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for one entry of every run over steps."""
    target, origin = ask.entry
    data = mixing_series_data(runs, MixingSeriesOptions(target=target, origin=origin, share=ask.share))
    of = {None: "Biases", 0: "Embedding"}.get(origin, f"Sublayer {origin}")
    title = f"{of} in {'the final read' if target is None else f'the read of sublayer {target}'}"
    quantity = SHARE_QUANTITY[ask.share]
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, quantity), definition=definition(quantity))
    focus = next((run for run in runs if run.id == ask.focus), runs[0])
    return Answer(
        title=title,
        note=f"{ask.share}; click a cell to follow it",
        figure=mixing_series_plotly(data, look=_look(ask, slots), end=ask.end),
        absent=reasons_by_name(data),
        definition=definition(quantity),
        key=[_elsewhere(focus, target, origin)],
    )


def options(ask: Ask, runs: Sequence[CachedRun]) -> MixingOptions:
    """Return what the figure shows for an ask; a difference goes to the first pinned step if there is one."""
    reference = None
    if ask.mixing == "difference":
        reference = reference_step(ask, runs, lambda run, base: run.layout.layers == base.layout.layers)
    return MixingOptions(
        step=ask.step,
        share=ask.share,
        mode=ask.mixing,
        reference_step=reference,
        baseline=ask.base,
        align=ask.align,
    )


def row_options(ask: Ask, runs: Sequence[CachedRun]) -> MixingRowOptions:
    whole = options(ask, runs)
    given = {entry.name: getattr(whole, entry.name) for entry in fields(whole)}
    return MixingRowOptions(**given, target=ask.entry[0])


def _takes_part(run: CachedRun, ask: Ask) -> bool:
    """Return whether the maps of other runs depend on this one: as their baseline, or as the measure of their step."""
    return run.id == ask.base and (ask.mixing == "difference" or ask.align != "step")


def _scales(ask: Ask, runs: Sequence[CachedRun]) -> tuple[Limits | None, float]:
    """Return the colour range and the end of cancellation of the newest records: they stand while steps move."""
    return of_newest(_ends, runs, replace(options(ask, runs), step=None, align="step"))


def _ends(runs: Sequence[CachedRun], newest: MixingOptions) -> tuple[Limits | None, float]:
    arrays = list(mixing_data(runs, newest).arrays.values())
    return mixing_limits(arrays), cancellation_top(arrays)


def _row_range(runs: Sequence[CachedRun], newest: MixingRowOptions) -> tuple[float, float]:
    values = [np.asarray(array.values) for array in mixing_row_data(runs, newest).arrays.values()]
    finite = np.concatenate([found[np.isfinite(found)] for found in values] or [np.empty(0)])
    return float(finite.min(initial=0.0)), float(finite.max(initial=0.0))


def _look(ask: Ask, slots: Mapping[str, int]) -> Look:
    return Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")


def _against(ask: Ask, runs: Sequence[CachedRun]) -> str:
    """Return what a difference is taken from: ``step 100``, or the baseline's name; empty where it is none."""
    if ask.mixing != "difference":
        return ""
    reference = options(ask, runs).reference_step
    if reference is not None:
        return f"step {reference:,}"
    return shortened(next((run for run in runs if run.id == ask.base), runs[0]).name, 18)


def _without_baseline(data: Labelled) -> Labelled:
    """Leave the baseline out of those without a line: a difference has none of its own."""
    baseline = data.attributes["baseline"]
    return replace(data, absent={run: reason for run, reason in data.absent.items() if run != baseline})


def _when(data: Labelled) -> str:
    steps = sorted({int(array["step"].values) for array in data.arrays.values()})
    return f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}"


def _sample(array: xr.DataArray) -> str:
    tokens = array.attrs["sample_tokens"]
    return f"Tokens in the sample: {tokens}" if isinstance(tokens, int) else ""


def _crashed(run: CachedRun) -> str:
    return f"crashed at step {run.last_step}" if run.status == "crashed" else ""


def _cancels(array: xr.DataArray) -> str:
    past = int(np.sum(array["cancellation"].values > CANCELS))
    return f"{past} cancel{'s' if past == 1 else ''}" if past else ""


def _incomplete(array: xr.DataArray) -> str:
    """Say when the origins do not make up the reads: something in between was not replayed."""
    sums = array["sum"].values[np.isfinite(array["sum"].values)]
    if sums.size == 0 or np.abs(sums - 1).max() <= _OFF:
        return ""
    return f"incomplete: rows sum to {sums.min():.2f}–{sums.max():.2f}"


def _key(ask: Ask, runs: Sequence[CachedRun], arrays: Sequence[xr.DataArray]) -> list[Any]:
    if not arrays:
        return []
    limits, _ = _scales(ask, runs)
    against = _against(ask, runs)
    words = f"{ask.share}{f' minus that of {against}' if against else ''}"
    scale = theme(ask.theme).diverging()
    parts: list[Any] = [] if limits is None else [scale_key(scale, limits, label=words, swatches=7)]
    if ask.share == "coefficient":
        parts.append(hatch_key("not read, or no factor"))
    else:
        parts.append(hatch_key("not read"))
    drawn = set().union(*map(drawn_kinds, arrays))
    parts += [key for kind, key in zip(("attention", "mlp"), kind_keys(), strict=True) if kind in drawn]
    past = any(_cancels(array) for array in arrays)
    said = (
        f"cancels past {CANCELS:g}: there single shares are large terms that cancel"
        if past
        else f"cancels: the sizes of a row's shares, summed; 1: none cancel, dashed: {CANCELS:g}"
    )
    bar = html.Span(className="bar-mark")
    return [*parts, html.Span([bar, said], className="key cancels" if past else "key")]


def _elsewhere(run: CachedRun, target: int | None, origin: int | None) -> html.Button | html.A:
    """Return the way to another page about the focused run: its weights, its wide state, or its profile."""
    layout = run.layout
    if layout.sources and origin is not None:
        row = layout.layers if target is None else target - 1
        source = _source_of(run, origin)
        if row < len(layout.sources) and source in layout.sources[row]:
            cell = {"data-action": "show-cell", "data-cell": f"{run.id}:{row + 1}:{source}"}
            return html.Button("Its depth attention", type="button", className="link", **cell)
    page, words = ("outer", "Outer state") if layout.outer_blocks else ("depth", "Depth profile")
    return html.A(words, href=page, className="link", **{"data-action": "page", "data-page": page})


def _source_of(run: CachedRun, origin: int) -> int:
    """Return the column of depth attention that holds an origin: of its own, or that of its block."""
    names = run.layout.source_names
    if origin == 0 or f"sublayer {origin}" in names:
        return origin
    blocks = run.layout.residual_block
    return blocks[origin - 1] if origin <= len(blocks) else -1
