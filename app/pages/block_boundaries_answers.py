"""Block boundaries, the answers: from a panel's ask to what the panel shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from depthscope.app.absent import definition, why_empty
from depthscope.app.answer import Answer
from depthscope.app.key import hatch_key, scale_key
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
    boundary_map_limits,
    drawn_as_map,
    runs_words,
    theme,
)


def boundary_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int], *, show: Show) -> Answer:
    """Answer for one panel: the folded profile at the step shown, or a number of each boundary over steps."""
    data = block_boundaries_data(runs, BoundaryOptions(show=show, step=ask.step))
    title, quantity = str(data.attributes["title"]), str(data.attributes["quantity"])
    if not data.arrays:
        return Answer(
            title=title, note=_note(data), empty=why_empty(data, quantity), definition=_definition(data)
        )
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    figure = block_boundaries_plotly(data, look=look, log=ask.log, end=_end(ask, data, runs))
    meta = figure["layout"]["meta"]
    few = f"the first {MOST_BOUNDARY_RUNS} runs" if len(data.arrays) > MOST_BOUNDARY_RUNS else ""
    told = (few, meta.get("left_out"), meta["note"], meta.get("beyond"), meta["unusual"])
    return Answer(
        title=title,
        note=_note(data),
        figure=figure,
        absent=_reasons(data),
        warning="; ".join(filter(None, told)),
        definition=_definition(data),
        key=_key(ask, data, figure) if show == "folded" else [],
    )


def _end(ask: Ask, data: Labelled, runs: Sequence[CachedRun]) -> int | None:
    """Return where the time axis ends: that of all runs selected leaves room for live ones, where any is drawn."""
    return ask.end if any(run.id in data.arrays and run.status == "live" for run in runs) else None


def _note(data: Labelled) -> str:
    note = str(data.attributes["note"])
    if data.attributes["show"] != "folded":
        return note
    how = (
        "one row a block, one scale for all runs"
        if drawn_as_map(data)
        else "one line a block, the later the thicker"
    )
    return f"{note}; {how}"


def _definition(data: Labelled) -> str:
    """Return what a panel shows: a ratio of recorded values by its own definition, else the quantity's."""
    array = next(iter(data.arrays.values()), None)
    if array is None or array.name == data.attributes["quantity"]:
        return definition(str(data.attributes["quantity"]))
    parts = (array.attrs["long_name"], array.attrs["formula"], array.attrs["reduction"])
    return "\n".join(filter(None, (*parts, f"Source: {array.attrs['source']}")))


def _reasons(data: Labelled) -> dict[str, str]:
    """Return why runs are left out, the runs with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for run, reason in data.absent.items():
        by_reason.setdefault(reason, []).append(data.names[run])
    return {f"without {runs_words(names)}": reason for reason, names in by_reason.items()}


def _key(ask: Ask, data: Labelled, figure: Mapping[str, Any]) -> list[Any]:
    """Return what colours, hatching and grey mean."""
    parts: list[Any] = []
    meta = figure["layout"]["meta"]
    limits = boundary_map_limits(data, log=ask.log) if drawn_as_map(data) else None
    if limits is not None:
        parts.append(scale_key(figure["layout"]["coloraxis"]["colorscale"], limits, log=meta["log"]))
        parts += [hatch_key("past a shorter block's end")] if meta["short"] else []
    if any(array.attrs["control"] for array in data.arrays.values()):
        mark = [] if limits is not None else [html.Span(className="began-mark")]
        words = "control: sums over virtual blocks, if writes were uncorrelated"
        parts.append(html.Span([*mark, words], className="key"))
    return parts
