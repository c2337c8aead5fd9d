"""Overview, the answers: cards, sentences with their evidence, and the table beside the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from dash import html

from depthscope.analysis import Finding
from depthscope.app.answer import Answer
from depthscope.app.findings import evidence, finding_key, findings_of
from depthscope.app.panel import empty_words, table_rows
from depthscope.app.reading import CachedRun
from depthscope.app.registry import kind_of
from depthscope.app.run_facts import FACTS, Fact, facts_of, newest_losses
from depthscope.app.state import Ask
from depthscope.figures import shortened, significant

_MOST_CARDS = 12
_NO_CHANGE = 1e-6
"""Relative difference that is rounding of stored numbers."""
_COMPARED = ("loss", "growth", "gradient")
"""Facts whose difference to the baseline is written: one number means the same in both runs."""


def cards_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the cards."""
    name, losses, series = newest_losses(runs)
    cards = [
        _card(run, facts_of(run, _found(run, runs, ask), losses[run.id]), series.get(run.id, []), ask, slots)
        for run in runs[:_MOST_CARDS]
    ]
    more = f"the first {_MOST_CARDS} of {len(runs)}" if len(runs) > _MOST_CARDS else ""
    return Answer(title="Runs", note=name.lower(), warning=more, rows=cards)


def sentences_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for every finding as a sentence, with a link to the page that shows it."""
    groups = []
    count = warnings = 0
    for run in runs:
        found = sorted(_found(run, runs, ask), key=lambda finding: finding.severity != "warning")
        count += len(found)
        warnings += sum(finding.severity == "warning" for finding in found)
        if found:
            title = html.H3([_dash(slots.get(run.id, 1)), run.name])
            items = html.Ul([_sentence(run, finding) for finding in found])
            groups.append(html.Section([title, items], className="run-findings"))
    if not groups:
        words = empty_words("Nothing stands out in these runs yet.", "Findings need a few recorded steps.")
        return Answer(title="What stands out", empty=words)
    note = f"{count} finding{'s' if count > 1 else ''}" + (
        f", {warnings} of them warnings" if warnings else ""
    )
    return Answer(title="What stands out", note=note, rows=groups)


def table_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the table; its rows are sorted by the column asked for."""
    _, losses, _ = newest_losses(runs)
    facts = {run.id: facts_of(run, _found(run, runs, ask), losses[run.id]) for run in runs}
    base = next((run for run in runs if run.id == ask.base), None)
    column, downward = ask.sort.lstrip("-"), ask.sort.startswith("-")
    ordered = sorted(runs, key=lambda run: slots.get(run.id, 0))
    if column in dict(FACTS):
        ordered = _by_number(ordered, {run.id: facts[run.id][column].number for run in runs}, downward)
    rows = [
        [
            html.Span(
                [_dash(slots.get(run.id, 1)), html.Span(shortened(run.name, 40), title=run.name)],
                className="run-cell",
            ),
            *(
                _cell(facts[run.id][key], None if base in (None, run) else facts[base.id][key], key)
                for key, _ in FACTS
            ),
        ]
        for run in ordered
    ]
    head = [("run", ""), *((_short(key), "number") for key, _ in FACTS)]
    note = (
        f"in brackets: difference to {shortened(base.name, 40)}" if base is not None and len(runs) > 1 else ""
    )
    return Answer(title="Side by side", note=note, rows=table_rows(head, rows, sorting=_sorting(ask.sort)))


def _found(run: CachedRun, runs: Sequence[CachedRun], ask: Ask) -> Sequence[Finding]:
    return findings_of(run, next((other for other in runs if other.id == ask.base), None))


def _card(
    run: CachedRun, facts: Mapping[str, Fact], series: Sequence[float], ask: Ask, slots: Mapping[str, int]
) -> html.Article:
    slot = slots.get(run.id, 1)
    spark = " ".join(f"{value:.5g}" for value in series if not isnan(value))
    shown = [(label, facts[key]) for key, label in FACTS if key != "loss" and facts[key].text != "–"]
    absent = [(label, facts[key].why) for key, label in FACTS if key != "loss" and facts[key].text == "–"]
    return html.Article(
        className="card",
        children=[
            html.Header(
                [
                    _dash(slot),
                    html.Strong(run.name),
                    html.Span(f"{kind_of(run.config, run.layout.design)}, {run.status}", className="note"),
                ]
            ),
            html.Div(
                className="card-loss",
                children=[
                    html.Span(className="spark", **{"data-values": spark, "data-slot": str(slot)}),
                    html.Span(facts["loss"].text, className="value", title=facts["loss"].why),
                ],
            ),
            html.Dl(
                [
                    html.Div([html.Dt(label), html.Dd(fact.text)], title=fact.why, className="fact")
                    for label, fact in shown
                ]
            ),
            _not_here(absent),
        ],
    )


def _not_here(absent: Sequence[tuple[str, str]]) -> Any:
    """Return a list, closed until it is asked for, of what a run has no number for, and why."""
    if not absent:
        return ""
    items = html.Ul([html.Li([html.Span(label), f": {why}."]) for label, why in absent])
    return html.Details([html.Summary(f"Not here: {len(absent)} of {len(FACTS) - 1}"), items])


def _sentence(run: CachedRun, finding: Finding) -> html.Li:
    text = f"{finding.text[:1].upper()}{finding.text[1:]}"
    return html.Li(
        [html.Span(text, title=finding.detail, className="words"), evidence(run, finding)],
        className=f"finding-line {finding.severity}",
        **{"data-finding": finding_key(run, finding)},
    )


def _by_number(runs: Sequence[CachedRun], numbers: Mapping[str, float], downward: bool) -> list[CachedRun]:
    """Sort by a number; runs without one come last either way."""
    held = [run for run in runs if not isnan(numbers[run.id])]
    held.sort(key=lambda run: numbers[run.id], reverse=downward)
    return [*held, *(run for run in runs if isnan(numbers[run.id]))]


def _cell(fact: Fact, base: Fact | None, key: str) -> html.Span:
    if base is None or key not in _COMPARED or isnan(base.number) or isnan(fact.number):
        return html.Span(fact.text, title=fact.why)
    step = fact.number - base.number
    if abs(step) <= _NO_CHANGE * max(abs(fact.number), abs(base.number)):
        step = 0.0
    change = f"{'+' if step >= 0 else ''}{significant(step, 2)}"
    return html.Span(
        [fact.text, html.Span(f" ({change.replace('-', '−')})", className="note")], title=fact.why
    )


def _short(key: str) -> str:
    return {
        "loss": "loss",
        "growth": "growth",
        "blocks": "block ends",
        "fresh": "fresh share",
        "gradient": "grad × write",
        "path": "skip path",
        "cost": "recorder.step()",
    }[key]


def _sorting(asked: str) -> dict[str, tuple[str, str]]:
    """Return for each column's title its key and how it is sorted now, as ``aria-sort`` has it."""
    titles = {_short(key): key for key, _ in FACTS}
    ways = {f"-{asked.lstrip('-')}": "descending", asked.lstrip("-"): "ascending"}
    return {
        title: (key, ways[asked] if asked.lstrip("-") == key else "none") for title, key in titles.items()
    }


def _dash(slot: int) -> html.Span:
    return html.Span(className="end-dash", style={"background": f"var(--run-{(slot - 1) % 8 + 1})"})
