"""Skip paths, the answers: from a panel's ask to arcs over depth and to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import xarray as xr
from dash import html

from depthscope.app.absent import definition, reasons_by_name, why_empty
from depthscope.app.answer import Answer
from depthscope.app.key import kind_keys
from depthscope.app.pages.effects_answers import EFFECT_DEFINITION, damaged_sweeps, measured_elsewhere
from depthscope.app.panel import empty_words, table_rows
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    Labelled,
    Look,
    SkipPathOptions,
    shortened,
    skip_kinds,
    skip_paths_data,
    skip_paths_plotly,
    theme,
)

_HEAD = (
    ("run", ""),
    ("target", ""),
    ("source", ""),
    ("distance", "number"),
    ("weight", "number"),
    ("contribution", "number"),
    ("× uniform", "number"),
    ("since step", "number"),
    ("above in", "number"),
    ("in runs", "number"),
)


_EFFECT = "loss change when cut"
_WEIGHT_ONLY = "Weight only: the size of the contribution is below 1 over twice the number of sources."
_CRITERION = (
    "A skip path: distance 2 or more (1 is the newest source that a target can read), four sources or more, mean "
    "weight of the last tenth of records at least 2 over the number of sources and 0.1, above it in 90 % of them."
)
_DEFINITION = "\n\n".join(
    (_CRITERION, _WEIGHT_ONLY, definition("depth_attention"), definition("depth_contribution"))
)


def arcs_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the arcs of two runs: the first of the ask above the axis, the second below."""
    title = "Skip paths over depth"
    data = _data(ask, runs)
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, "depth_attention"))
    drawn = Labelled(
        arrays=dict(list(data.arrays.items())[:2]),
        absent=data.absent,
        names=data.names,
        attributes=data.attributes,
    )
    if not any(array.size for array in drawn.arrays.values()):
        return Answer(title=title, empty=_none_found(ask, drawn), definition=_DEFINITION)
    names = [shortened(data.names[run], 20) for run in drawn.arrays]
    above = f"{names[0]} above" + (f", {names[1]} below" if len(names) > 1 else "")
    others = f"; {len(data.arrays) - 2} more in the table" if len(data.arrays) > 2 else ""
    dashed = html.Span(
        [html.Span(className="dashed-mark"), "weight only"], className="key", title=_WEIGHT_ONLY
    )
    return Answer(
        title=title,
        note=f"{above}{others}; width is weight",
        figure=skip_paths_plotly(drawn, look=Look(theme=theme(ask.theme), slots=slots, host="page")),
        absent=reasons_by_name(data),
        definition=_DEFINITION,
        key=[*([dashed] if _any_weight_only(drawn) else []), *(kind_keys() if skip_kinds(drawn) else [])],
    )


def paths_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the table of all runs' paths."""
    data = _data(ask, runs)
    title = "Skip paths"
    if not data.arrays:
        return Answer(title=title, empty=why_empty(data, "depth_attention"))
    measured = any("effect" in array.coords for array in data.arrays.values())
    rows = [
        _row(run, shortened(data.names[run], 24), array, place, slots.get(run, 1), measured=measured)
        for run, array in data.arrays.items()
        for place in range(array.size)
    ]
    if not rows:
        return Answer(title=title, empty=_none_found(ask, data))
    found = sum(int(array.attrs["found"]) for array in data.arrays.values())
    left_out = "" if found == len(rows) else f"{found - len(rows)} of {found} left out by the controls"
    return Answer(
        title=title,
        note=", ".join(filter(None, (_averaged(data), left_out))),
        warning="; ".join(
            filter(None, (measured_elsewhere(data, ask.step) if measured else "", damaged_sweeps(data)))
        ),
        rows=table_rows((*_HEAD, *([(_EFFECT, "number")] if measured else [])), rows),
        key=[html.Span(_measured(data), className="note", title=EFFECT_DEFINITION)] if measured else [],
        definition=f"{_DEFINITION}\n\n{EFFECT_DEFINITION}" if measured else _DEFINITION,
    )


def _data(ask: Ask, runs: Sequence[CachedRun]) -> Labelled:
    places = {name: place for place, name in enumerate(ask.ordered)}
    options = SkipPathOptions(
        step=ask.step,
        top=ask.top,
        least_weight=ask.least_weight,
        least_distance=ask.least_distance,
        cut=ask.cut,
    )
    return skip_paths_data(sorted(runs, key=lambda run: places[run.id]), options)


def _any_weight_only(data: Labelled) -> bool:
    return any(bool(array["weight_only"].values.any()) for array in data.arrays.values())


def _averaged(data: Labelled) -> str:
    """Say what the weights listed are means of: records and their newest step, where all runs have the same."""
    spans = {
        (int(array["records"].values[0]), int(array.attrs["step"]))
        for array in data.arrays.values()
        if array.size
    }
    if len(spans) > 1:
        return str(data.attributes["note"])
    ((records, step),) = spans
    over = "the last record" if records == 1 else f"the last {records} records"
    return f"mean weight over {over}, to step {step:,}"


def _none_found(ask: Ask, data: Labelled) -> list[Any]:
    found = sum(int(array.attrs["found"]) for array in data.arrays.values())
    if found:
        return empty_words(
            f"None of {found} skip paths passes the controls.", "Lower the weight or the distance."
        )
    when = "" if ask.step is None else f" up to step {ask.step:,}"
    return empty_words(
        f"No source meets the criterion of a skip path{when}.",
        "Depth attention shows the weights that there are.",
    )


def _measured(data: Labelled) -> str:
    """Say which sweep the effects are of: once where all runs have the same."""
    told = {
        run: str(array.attrs["measured"]) for run, array in data.arrays.items() if array.attrs["measured"]
    }
    if len(set(told.values())) == 1:
        return f"{_EFFECT}: {next(iter(told.values()))}"
    each = "; ".join(f"{shortened(data.names[run], 16)} {words}" for run, words in told.items())
    return f"{_EFFECT}: {each}"


def _row(run: str, name: str, array: xr.DataArray, place: int, slot: int, *, measured: bool) -> list[Any]:
    def at(column: str) -> Any:
        return array[column].values[place].item()

    cell = {"data-action": "show-cell", "data-cell": f"{run}:{at('target')}:{at('source')}"}
    label = f"Show {at('target_name')}, {at('source_name')} in the maps of Depth attention"
    colour = f"var(--run-{(slot - 1) % 8 + 1})"
    contribution = "–" if isnan(at("contribution")) else f"{at('contribution'):.2f}".replace("-", "−")
    return [
        html.Span(
            [html.Span(className="end-dash", style={"background": colour}), name], className="run-cell"
        ),
        html.Button(at("target_name"), type="button", className="cell-link", title=label, **cell),
        at("source_name"),
        f"{at('distance')} {at('distance_unit')}s",
        f"{float(array.values[place]):.2f}",
        f"{contribution} (weight only)" if at("weight_only") else contribution,
        f"{at('times_uniform'):.1f}",
        f"{at('first_step'):,} ± {at('cadence')}",
        f"{100 * at('above'):.0f} %",
        f"{at('shared_by')} of {int(array['comparable'])}",
        *([_effect(array, place)] if measured else []),
    ]


def _effect(array: xr.DataArray, place: int) -> str:
    """Write the loss change when a path is cut, with its interval."""
    if "effect" not in array.coords or isnan(array["effect"].values[place]):
        return "–"
    half = float(array["effect_interval"].values[place])
    text = f"{float(array['effect'].values[place]):+.4f}".replace("-", "−")
    return text if isnan(half) else f"{text} ± {half:.4f}"
