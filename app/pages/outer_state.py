"""Outer state, the page: what a wide state carries, is written, and lets through, by block and over steps."""

from __future__ import annotations

from typing import Any

from dash import html

from depthscope.app.absent import lacks_quantity
from depthscope.app.export import PageFigure
from depthscope.app.page import Page, Panel
from depthscope.app.pages.outer_state_answers import (
    balance_answer,
    direct_answer,
    gates_answer,
    outer_map_answer,
)
from depthscope.app.panel import panel
from depthscope.app.reading import CachedRun

_READING = (
    "Energies are taken before the boundary norm: after it they are constant by construction, and so is what "
    "blocks from the second on carry."
)


def lacks_outer(run: CachedRun) -> str:
    """Say why a run has nothing here: its state is not wide, or nothing of it was recorded."""
    return lacks_quantity(run, "outer_energy", run.layout.outer_blocks > 0, "wide state")


def head() -> list[Any]:
    return [html.Div(className="spring"), html.Span(_READING, className="note head-note")]


def body() -> html.Div:
    return html.Div(
        id="outer-panels",
        className="panels outer-panels",
        children=[
            panel("outer-map"),
            panel("outer-balance"),
            panel("outer-gates"),
            panel("outer-direct"),
        ],
    )


OUTER_STATE = Page(
    name="outer",
    title="Outer state",
    head=head,
    body=body,
    lacks=lacks_outer,
    figure=PageFigure(
        name="outer-state",
        options=lambda ask, runs: {"step": ask.step, "baseline": ask.base, "align": ask.align},
    ),
    panels={
        "outer-map": Panel(title="Outer energy by block and step", answer=outer_map_answer),
        "outer-balance": Panel(title="Carry against write", answer=balance_answer),
        "outer-gates": Panel(title="Gates", answer=gates_answer),
        "outer-direct": Panel(title="Direct path", answer=direct_answer),
    },
)
