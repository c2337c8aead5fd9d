"""Depth attention, the page: weight and contribution maps of each run, one cell over steps, distant sources."""

from __future__ import annotations

from functools import partial
from typing import Any

from dash import html

from depthscope.app.absent import lacks_quantity
from depthscope.app.controls import segments
from depthscope.app.export import PageFigure
from depthscope.app.page import Page, Panel
from depthscope.app.pages.depth_attention_answers import (
    attention_answer,
    distant_answer,
    options,
    series_answer,
)
from depthscope.app.pages.effects_answers import EFFECTS_FIGURE
from depthscope.app.panel import left_out, panel
from depthscope.app.reading import CachedRun

MAPS = ("attention-1", "attention-2", "attention-3", "attention-4")
"""Map panels: as many runs are shown at once."""
NO_EFFECT = "Weights describe routing; only an intervention shows an effect."
_READING = "Rows read columns."
_TARGETS = (("together", "Together"), ("attention", "Pre-attention"), ("mlp", "Pre-MLP"))
_VIEWS = (
    ("mean", "Mean"),
    ("spread", "Spread over tokens"),
    ("uniform", "Minus uniform"),
    ("local", "Minus local"),
    ("difference", "Difference"),
)


def lacks_attention(run: CachedRun) -> str:
    """Say why a run has no maps: its design has no depth mixer, or the weights were not recorded."""
    return lacks_quantity(run, "depth_attention", bool(run.layout.sources), "depth attention")


def head() -> list[Any]:
    """Return the page's controls; the scripts fill `only` with the runs that have maps."""
    return [
        segments("targets", _TARGETS),
        segments("weights", _VIEWS),
        html.Div(className="spring"),
        html.Div(id="only", className="segments", role="group", **{"aria-label": "Runs"}),
    ]


def body() -> html.Div:
    return html.Div(
        className="attention-panels",
        children=[
            html.Div(
                className="key-row",
                children=[
                    html.Span(id="key-attention-1", className="key"),
                    left_out("attention", names=True),
                    html.Div(className="spring"),
                    html.Span(_READING, className="note"),
                    html.Span(NO_EFFECT, className="note stays"),
                ],
            ),
            html.Div(
                id="attention-maps",
                className="maps",
                children=[panel(name, key=False, sample=True) for name in MAPS],
            ),
            html.Div(
                className="series",
                children=[panel("cell-weight"), panel("cell-contribution"), panel("distant", table=True)],
            ),
        ],
    )


DEPTH_ATTENTION = Page(
    name="attention",
    title="Depth attention",
    head=head,
    body=body,
    lacks=lacks_attention,
    figure=PageFigure(
        name="depth-attention", options=lambda ask, runs: {**vars(options(ask, runs)), "baseline": ask.base}
    ),
    effects=EFFECTS_FIGURE,
    panels={
        **{
            name: Panel(title="Depth attention", answer=attention_answer, keyed=place == 0)
            for place, name in enumerate(MAPS)
        },
        "cell-weight": Panel(title="Weight", answer=partial(series_answer, part="weight")),
        "cell-contribution": Panel(title="Contribution", answer=partial(series_answer, part="contribution")),
        "distant": Panel(title="Distant sources", answer=distant_answer, table=True),
    },
)
