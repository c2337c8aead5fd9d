"""Overview, the page: a card for each run, what stands out in sentences, and a table beside the baseline."""

from __future__ import annotations

from typing import Any

from dash import html

from depthscope.app.page import Page, Panel
from depthscope.app.pages.overview_answers import cards_answer, sentences_answer, table_answer
from depthscope.app.panel import panel
from depthscope.app.run_facts import FACTS

_READING = "Findings are computed from what was recorded; hover a number for what it is or why it is missing."


def head() -> list[Any]:
    return [html.Div(className="spring"), html.Span(_READING, className="note head-note")]


def body() -> html.Div:
    return html.Div(
        className="overview-panels",
        **{"data-columns": " ".join(key for key, _ in FACTS)},
        children=[
            panel("cards", table=True, container="div"),
            panel("summary", table=True),
            panel("sentences", table=True, container="div"),
        ],
    )


OVERVIEW = Page(
    name="overview",
    title="Overview",
    head=head,
    body=body,
    panels={
        "cards": Panel(title="Runs", answer=cards_answer, table=True),
        "sentences": Panel(title="What stands out", answer=sentences_answer, table=True),
        "summary": Panel(title="Side by side", answer=table_answer, table=True),
    },
)
