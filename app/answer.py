"""An answer to a panel's ask: the whole figure, or a patch with the runs that have new rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dash import Patch, html, no_update

from depthscope.app.state import Ask

_BLANK: Mapping[str, Any] = {
    "xaxis": {"visible": False},
    "yaxis": {"visible": False},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a panel shows."""

    title: str
    note: str = ""
    figure: Mapping[str, Any] | None = None
    """A plotly figure as a dict; None when there is nothing to draw."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Reasons by run name."""
    warning: str = ""
    definition: str = ""
    empty: list[Any] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    """Of a table: its header row and its rows; `figure` stays None."""
    key: list[Any] = field(default_factory=list)
    """What the colours and the hatching mean, for the header."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """For the drawer: run id to a few words, empty for runs that have the quantity."""


def as_outputs(answer: Answer, ask: Ask, *, table: bool = False, keyed: bool = True) -> list[Any]:
    """Return a panel's outputs: figure, title, note, warning, empty text, definition, key.

    With `table`, rows stand in place of the figure, and a mark for the page comes last; without `keyed` there is no
    key. What the page holds already is not sent again: each part that its document builds anew costs it a millisecond
    or two, as much as drawing a map does.
    """
    shown = bool(answer.rows if table else answer.figure)
    parts = [answer.title, answer.note, _warning(answer), [] if shown else answer.empty, answer.definition]
    parts += [answer.key] if keyed else []
    if table:
        parts = [answer.rows, *parts]
    digests = [_digest(part) for part in parts]
    held = ask.held if len(ask.held) == len(parts) else [""] * len(parts)
    new = [part if digests[i] != held[i] else no_update for i, part in enumerate(parts)]
    mark = {**ask.mark, "held": digests}
    return [*new, {"asked": mark}] if table else [_figure(answer, ask, mark), *new]


def _digest(part: Any) -> str:
    """Return a few letters that differ where what a part shows differs."""
    text = json.dumps(part, default=lambda component: component.to_plotly_json())
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _warning(answer: Answer) -> str:
    warnings = [answer.warning, *(f"{name}: {reason}" for name, reason in answer.absent.items())]
    return "; ".join(filter(None, warnings)) if answer.figure is not None or answer.rows else ""


def _figure(answer: Answer, ask: Ask, mark: Mapping[str, Any]) -> Any:
    """Return the whole figure, or, when the page holds one with the same traces, a patch with what is new."""
    layout = dict(answer.figure["layout"]) if answer.figure else dict(_BLANK)
    traces = list(answer.figure["data"]) if answer.figure else []
    shape = " ".join(f"{trace['meta'].get('run')}:{trace['meta']['role']}" for trace in traces)
    home = {
        name: entry["range"] for name, entry in layout.items() if name[1:5] == "axis" and "range" in entry
    }
    for name in home.keys() & ask.zoom.keys():
        layout[name] = {**layout[name], "range": list(ask.zoom[name])}
    layout["meta"] = {
        **layout.get("meta", {}),
        "home": home,
        "asked": {**mark, "shape": shape},
        "missing": dict(answer.missing),
    }
    layout["uirevision"] = f"{','.join(ask.runs)}|{ask.metric}|{ask.mode}|{ask.log}|{ask.targets}|{ask.cell}"
    layout["uirevision"] += f"|{ask.share}|{ask.mixing}|{ask.entry}|{ask.against}|{ask.cut}"
    if ask.changed is None or ask.shape != shape:
        return {"data": traces, "layout": layout}
    patch = Patch()
    for place, trace in enumerate(traces):
        if trace["meta"].get("run") in (None, *ask.changed):
            patch["data"][place] = trace
    patch["layout"] = layout
    return patch


def nothing_selected(runs_exist: bool, root: str) -> list[Any]:
    """Return the words of a page without a run to show."""
    if runs_exist:
        return [html.P("No run is selected."), html.P("Select one in the drawer on the left.")]
    return [
        html.P(f"There are no runs in {root} yet; new ones appear here by themselves."),
        html.P(
            [
                "To record four designs: ",
                html.Code("depthscope demo"),
                ", or in a training loop: ",
                html.Code("depthscope.Recorder(model, path)"),
            ]
        ),
    ]
