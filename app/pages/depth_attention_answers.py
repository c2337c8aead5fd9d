"""Depth attention, the answers: from a panel's ask to what the panel shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np
import xarray as xr
from dash import html

from depthscope.app.absent import definition, why_empty
from depthscope.app.answer import Answer
from depthscope.app.key import hatch_key, kind_keys, scale_key
from depthscope.app.newest import of_newest
from depthscope.app.pages.effects_answers import EFFECT_DEFINITION, damaged_sweeps, measured_elsewhere
from depthscope.app.panel import empty_words, table_rows
from depthscope.app.reading import CachedRun
from depthscope.app.reference import reference_step
from depthscope.app.state import Ask
from depthscope.figures import (
    PARTS,
    CellSeriesOptions,
    DepthAttentionOptions,
    DistantSource,
    Labelled,
    Limits,
    Look,
    attention_limits,
    attention_marks,
    cell_series_data,
    cell_series_plotly,
    depth_attention_data,
    depth_attention_plotly,
    distant_sources,
    effect_limits,
    is_difference,
    shortened,
    theme,
)

_LISTED = 5
_DISTANT = (
    "The cells of largest weight at this step, of targets with four sources or more, the newest source left out. "
    "Distance 1 is the newest source that the target can read."
)
_FOLLOWED = {"weight": ("depth_attention", "depth_attention_std"), "contribution": ("depth_contribution",)}
_PALE = "Entropy bars are pale where a target reads three sources or fewer."
_MAPPED = ("depth_attention", "depth_contribution", "depth_attention_entropy")


def attention_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the maps of one run; all runs of the ask share the colour scale."""
    shown = _shown(ask, runs)
    everyone = depth_attention_data(runs, options(ask, runs))
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    if shown.id not in everyone.arrays:
        return Answer(title=_title(ask, shown, everyone), empty=why_empty(everyone, "depth_attention"))
    data = replace(everyone, arrays={shown.id: everyone.arrays[shown.id]}, absent={})
    limits = common_limits(ask, runs)
    figure = depth_attention_plotly(data, look=look, limits=limits)
    array = next(iter(data.arrays.values()))
    axis = array.attrs["source_axis"]
    sources = f"source: embedding and {'residual blocks' if axis == 'block' else 'sublayer outputs'}"
    note = _view_note(ask, runs, shown) or sources
    effects = f"; effect: {array.attrs['measured']}" if array.attrs["measured"] else ""
    crashed = f"crashed at step {shown.last_step}" if shown.status == "crashed" else ""
    step = int(array["step"].values)
    return Answer(
        title=shortened(shown.name, 28),
        note=f"{note}, step {step:,}{effects}",
        figure=figure,
        warning=", ".join(
            filter(
                None,
                (
                    crashed,
                    array.attrs["contribution_absent"],
                    damaged_sweeps(data),
                    measured_elsewhere(data, ask.step),
                ),
            )
        ),
        definition="\n\n".join([*map(definition, _MAPPED), _PALE, *([EFFECT_DEFINITION] if effects else [])]),
        key=_key(figure, limits, everyone),
    )


def series_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int], *, part: str) -> Answer:
    """Answer for one cell over steps: its weight, or its contribution."""
    shown = _shown(ask, runs)
    quantity = "depth_attention" if part == "weight" else "depth_contribution"
    title = part.capitalize()
    cell = ask.cell or _first_cell(shown)
    if cell is None:
        everything = depth_attention_data([shown], DepthAttentionOptions())
        words = why_empty(everything, "depth_attention") if everything.absent else _pick_a_cell()
        return Answer(title=title, empty=words, definition=definition(quantity))
    data = cell_series_data([shown], CellSeriesOptions(target=cell[0], source=cell[1]))
    if not data.arrays:
        unreadable = "cannot be read" in next(iter(data.absent.values()))
        words = why_empty(data, quantity) if unreadable else _pick_a_cell()
        return Answer(title=title, empty=words, definition=definition(quantity))
    array = next(iter(data.arrays.values()))
    note = f"{array['target_name'].values}, {array['source_name'].values}"
    look = Look(theme=theme(ask.theme), slots=slots, host="page")
    if part == "contribution" and "depth_contribution" not in shown.quantities:
        reason = shown.missing.get("depth_contribution", "the contribution was not recorded")
        return Answer(
            title=title, note=note, empty=empty_words(f"{reason}."), definition=definition(quantity)
        )
    return Answer(
        title=title,
        note=note,
        figure=cell_series_plotly(data, look=look, part=part, end=ask.end),
        definition="\n\n".join(map(definition, _FOLLOWED[part])),
        key=[html.Strong(_fixed(_value(shown, cell, part, ask.step), 2), className="value")],
    )


def distant_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the distant sources that one run weights most at the step shown."""
    shown = _shown(ask, runs)
    title = "Distant sources"
    data = depth_attention_data([shown], DepthAttentionOptions(step=ask.step, targets=ask.targets))
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, "depth_attention"))
    found = distant_sources(next(iter(data.arrays.values())), shown.layout.sources, most=_LISTED)
    if not found:
        words = empty_words("No target here reads four sources or more, so none is called distant.")
        return Answer(title=title, note=shortened(shown.name, 20), empty=words)
    head = [("target", ""), ("source", "")]
    head += [(name, "number") for name in ("distance", "weight", "contribution", "× uniform")]
    unit = next(iter(data.arrays.values())).attrs["source_axis"]
    link = html.A("All skip paths", href="paths", className="link", **_to_page("paths"))
    return Answer(
        title=title,
        note=f"{shortened(shown.name, 20)}, distance in {unit}s",
        definition=f"{_DISTANT}\n\n{definition('depth_attention')}\n\n{definition('depth_contribution')}",
        rows=table_rows(head, [_distant_row(shown.id, entry) for entry in found]),
        key=[link],
    )


def options(ask: Ask, runs: Sequence[CachedRun]) -> DepthAttentionOptions:
    """Return what the figure shows for an ask; a difference goes to the first pinned step if there is one."""
    reference = None
    if ask.view == "difference":
        reference = reference_step(ask, runs, lambda run, base: run.layout.sources == base.layout.sources)
    return DepthAttentionOptions(
        step=ask.step,
        targets=ask.targets,
        view=ask.view,
        reference_step=reference,
        baseline=ask.base,
        align=ask.align,
        cut=ask.cut,
    )


def common_limits(ask: Ask, runs: Sequence[CachedRun]) -> dict[str, Limits]:
    """Return the colour ranges of both parts from the newest records of all runs: they stand while steps move."""
    asked = options(ask, runs)
    newest = DepthAttentionOptions(
        view=asked.view, reference_step=asked.reference_step, baseline=asked.baseline, cut=asked.cut
    )
    return of_newest(_limits, runs, newest)


def _limits(runs: Sequence[CachedRun], newest: DepthAttentionOptions) -> dict[str, Limits]:
    arrays = list(depth_attention_data(runs, newest).arrays.values())
    signed = {"weight": is_difference(newest.view), "contribution": True}
    found = {part: attention_limits(arrays, part, signed=signed[part]) for part in PARTS}
    found["effect"] = effect_limits([array["effect"] for array in arrays if "effect" in array.coords])
    return {part: limits for part, limits in found.items() if limits is not None}


def _shown(ask: Ask, runs: Sequence[CachedRun]) -> CachedRun:
    return next((run for run in runs if run.id == ask.shown), runs[0])


def _title(ask: Ask, shown: CachedRun, data: Labelled) -> str:
    return shortened(shown.name, 28) if data.arrays else "Depth attention"


def _view_note(ask: Ask, runs: Sequence[CachedRun], shown: CachedRun) -> str:
    if ask.view == "spread":
        return "weight: std over tokens"
    if ask.view == "uniform":
        return "minus 1/sources"
    if ask.view == "local":
        return "newest source and embedding hidden"
    if ask.view != "difference":
        return ""
    reference = options(ask, runs).reference_step
    base = next((run for run in runs if run.id == ask.base), shown)
    return f"minus step {reference:,}" if reference is not None else f"minus {shortened(base.name, 18)}"


def _key(figure: Mapping[str, Any], limits: Mapping[str, Limits], data: Labelled) -> list[Any]:
    parts: list[Any] = []
    for part, axis in zip(PARTS, ("coloraxis", "coloraxis2"), strict=True):
        if part in limits:
            scale = figure["layout"][axis]["colorscale"]
            label = "spread" if part == "weight" and data.attributes["mode"] == "spread" else part
            parts.append(scale_key(scale, limits[part], label=label, swatches=7))
    if "effect" in limits:
        diverging = figure["layout"]["coloraxis2"]["colorscale"]
        parts.append(scale_key(diverging, limits["effect"], label="effect, nats a token", swatches=7))
    marks = set().union(*map(attention_marks, data.arrays.values()))
    if "unreachable" in marks:
        parts.append(hatch_key("unreachable"))
    if any(_unmeasured(array) for array in data.arrays.values()):
        parts.append(html.Span([html.Span(className="dotted"), "not measured"], className="hatch-key"))
    if marks & {"partial", "partial-line"}:
        joined = "" if "partial" in marks else " joined"
        mark = html.Span(html.Span(), className=f"partial-mark{joined}")
        parts.append(html.Span([mark, "partial block"], className="key"))
    kinds = zip(("attention", "mlp"), kind_keys(), strict=True)
    return [*parts, *(key for kind, key in kinds if kind in marks)]


def _unmeasured(array: xr.DataArray) -> bool:
    """Return whether a run with effects has cells that can be read and were not measured."""
    if "effect" not in array.coords:
        return False
    return bool((np.isnan(array["effect"].values) & array["reachable"].values).any())


def _pick_a_cell() -> list[Any]:
    return empty_words("No cell is chosen.", "Click one in a map to follow it over steps.")


def _first_cell(run: CachedRun) -> tuple[int, int] | None:
    """Return the distant source with the largest weight in the newest record, else the last target's embedding."""
    arrays = depth_attention_data([run], DepthAttentionOptions()).arrays
    if not arrays:
        return None
    found = distant_sources(next(iter(arrays.values())), run.layout.sources, most=1)
    return (found[0].target, found[0].source) if found else (len(run.layout.sources), 0)


def _value(run: CachedRun, cell: tuple[int, int], part: str, step: int | None) -> float:
    """Return the value of a cell at the record that the maps show: points of a long series are means of many."""
    maps = depth_attention_data([run], DepthAttentionOptions(step=step)).arrays
    if run.id not in maps:
        return float("nan")
    return float(maps[run.id].sel(part=part).values[cell[0] - 1, cell[1]])


def _distant_row(run: str, entry: DistantSource) -> list[Any]:
    cell = {"data-action": "cell", "data-cell": f"{run}:{entry.target}:{entry.source}"}
    label = f"Follow {entry.target_name}, {entry.source_name} over steps"
    return [
        html.Button(entry.target_name, type="button", className="cell-link", title=label, **cell),
        entry.source_name,
        str(entry.distance),
        _fixed(entry.weight, 2),
        _fixed(entry.contribution, 2),
        _fixed(entry.times_uniform, 1),
    ]


def _fixed(value: float, digits: int) -> str:
    """Write a share with the same number of digits in every row."""
    return "–" if isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _to_page(name: str) -> dict[str, str]:
    return {"data-action": "page", "data-page": name}
