"""Run, the page: one run's configuration, what was recorded, what was not and why, gaps and rewinds."""

from __future__ import annotations

from typing import Any

from dash import html

from depthscope.app.page import Page, Panel
from depthscope.app.pages.run_detail_answers import (
    about_answer,
    config_answer,
    missing_answer,
    recorded_answer,
)
from depthscope.app.pages.run_detail_sites import sites_answer
from depthscope.app.panel import panel

_READING = "The run that is focused in the drawer; click another's name there."


def head() -> list[Any]:
    return [html.Div(className="spring"), html.Span(_READING, className="note head-note")]


def body() -> html.Div:
    return html.Div(
        className="panels run-panels",
        children=[panel(name, table=True) for name in ("about", "recorded", "sites", "config", "missing")],
    )


RUN_DETAIL = Page(
    name="run",
    title="Run",
    head=head,
    body=body,
    panels={
        "about": Panel(title="Run", answer=about_answer, table=True),
        "recorded": Panel(title="Recorded", answer=recorded_answer, table=True),
        "sites": Panel(title="By site", answer=sites_answer, table=True),
        "config": Panel(title="Configuration", answer=config_answer, table=True),
        "missing": Panel(title="Not recorded", answer=missing_answer, table=True),
    },
)
