"""Depth profile, the page: a quantity over depth at a step, its gradient, the loss, and maps over all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from depthscope.app.controls import menu, segments
from depthscope.app.export import PageFigure
from depthscope.app.key import kind_keys
from depthscope.app.page import Page, Panel
from depthscope.app.pages.depth_profile_answers import (
    READING,
    gradient_answer,
    loss_answer,
    map_answer,
    profile_answer,
)
from depthscope.app.panel import panel
from depthscope.app.reading import CachedRun
from depthscope.app.state import DEFAULT_QUANTITY, LAYER_QUANTITIES, Ask
from depthscope.figures import GRADIENT, quantity_shown
from depthscope.quantities import QUANTITIES

MODES = (
    ("absolute", "Absolute"),
    ("ratio", "Ratio to first"),
    ("fresh", "Fresh share"),
    ("write", "Write ratio"),
    ("difference", "Difference"),
)
RANGES = (("shared", "Shared, 1–99 %"), ("full", "Shared, all"), ("own", "Each map, 1–99 %"))


def profile_options(ask: Ask, runs: Sequence[CachedRun]) -> dict[str, Any]:
    """Return what the exported figure shows: the page's three upper panels, as they stand there."""
    replaced = quantity_shown(ask.metric, ask.mode) != ask.metric
    usual = replaced or ask.metric == DEFAULT_QUANTITY
    chosen = {} if usual else {"quantity": f"loss,{ask.metric},{GRADIENT}"}
    pinned = [ask.focus] if len(runs) > 2 and ask.focus else [run.id for run in runs]
    return {
        **chosen,
        "mode": ask.mode,
        "step": ask.step,
        "pins": ask.pins,
        "pinned_runs": pinned,
        "baseline": ask.base,
        "align": ask.align,
        "focus": ask.focus,
        "robust": ask.range != "full",
    }


def head() -> list[Any]:
    """Return the page's controls."""
    return [
        menu("metric", "Quantity", [(name, QUANTITIES[name].label) for name in _menu_order()]),
        segments("mode", MODES),
        html.Div(className="spring"),
        segments("scale", (("log", "Log"), ("linear", "Linear"))),
        menu("range", "Range", RANGES),
    ]


def body() -> html.Div:
    """Return the page's panels; `depth_profile_answers` fills them."""
    return html.Div(
        className="panels depth-panels",
        children=[
            html.P(READING, className="note reading"),
            panel(
                "profile",
                legend=[html.Span([*kind_keys(), html.Span()], id="kinds-profile", className="key")],
            ),
            panel("gradient"),
            panel("loss"),
            panel("maps"),
        ],
    )


def _menu_order() -> list[str]:
    """The state first: it is what the page opens with."""
    return sorted(LAYER_QUANTITIES, key=lambda name: not name.startswith("state_"))


DEPTH_PROFILE = Page(
    name="depth",
    title="Depth profile",
    head=head,
    body=body,
    figure=PageFigure(name="depth-profile", options=profile_options),
    panels={
        "profile": Panel(title="State after each write", answer=profile_answer),
        "gradient": Panel(title=QUANTITIES[GRADIENT].label, answer=gradient_answer),
        "loss": Panel(title="Validation loss", answer=loss_answer),
        "maps": Panel(title="State by sublayer and step", answer=map_answer),
    },
)
