"""Run, the answer per site: what every place on the depth axis gave, and what not, with why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from depthscope.app.answer import Answer
from depthscope.app.panel import empty_words, table_rows
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.quantities import QUANTITIES

_HEAD = [("site", ""), ("where", ""), ("recorded", ""), ("not recorded, and why", "")]


def sites_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for each kind of site, places with the same outcome in one row."""
    run = next((run for run in runs if run.id == ask.shown), runs[0])
    lines = _lines(run.run.notes.get("sites"))
    if not lines:
        words = empty_words("The run holds no table of its sites; a recorder of this version writes one.")
        return Answer(title="By site", empty=words)
    rows = [
        [
            line["site"],
            line["where"] or "–",
            _names(line["recorded"]) or "nothing",
            [
                html.Div([_lacking(line, names), html.Span(reason)])
                for reason, names in line["missing"].items()
            ],
        ]
        for line in lines
    ]
    incomplete = sum(bool(line["missing"]) for line in lines)
    note = f"{incomplete} of {len(lines)} rows lack something" if incomplete else "all sites gave everything"
    return Answer(title="By site", note=note, rows=table_rows(_HEAD, rows))


def _lacking(line: Mapping[str, Any], names: Sequence[str]) -> Any:
    if not line["recorded"] and len(line["missing"]) == 1:
        return "all of it: "
    return html.Span([*_names(names), ": "])


def _names(names: Sequence[str]) -> list[Any]:
    cells: list[Any] = []
    for name in names:
        known = QUANTITIES.get(name)
        cells += [", "] if cells else []
        cells.append(html.Code(name, title=known.long_name) if known else name)
    return cells


def _lines(noted: Any) -> list[dict[str, Any]]:
    """Return the rows of a run's note that are as a recorder writes them: a file may hold anything."""
    lines = []
    for entry in noted if isinstance(noted, list) else ():
        if not isinstance(entry, dict):
            continue
        recorded, missing = entry.get("recorded"), entry.get("missing")
        if isinstance(recorded, list) and isinstance(missing, dict):
            lines.append(
                {
                    "site": str(entry.get("site", "")),
                    "where": str(entry.get("where", "")),
                    "recorded": [str(name) for name in recorded],
                    "missing": {
                        str(reason): [str(name) for name in names]
                        for reason, names in missing.items()
                        if isinstance(names, list)
                    },
                }
            )
    return lines
