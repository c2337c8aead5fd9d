"""Depth profile, the page: a quantity over depth at a step, its gradient, the loss, and maps over all steps."""

from __future__ import annotations

from dash import dcc, html

from depthscope.app.controls import icon_button, menu, segments
from depthscope.app.panel import panel
from depthscope.app.state import LAYER_QUANTITIES
from depthscope.quantities import QUANTITIES

NAME = "depth"
TITLE = "Depth profile"
MODES = (
    ("absolute", "Absolute"),
    ("ratio", "Ratio to first"),
    ("fresh", "Fresh share"),
    ("write", "Write ratio"),
    ("difference", "Difference"),
)
RANGES = (("shared", "Shared, 1–99 %"), ("full", "Shared, all"), ("own", "Each map, 1–99 %"))


def depth_profile_page() -> html.Div:
    """Return the page's content; the callbacks of `depth_profile_answers` fill it."""
    return html.Div(
        className="page depth-profile",
        children=[
            dcc.Store(id="ask-findings"),
            dcc.Store(id="findings-mark"),
            dcc.Store(id="seen-findings"),
            html.Div(
                className="head",
                children=[
                    html.H1(TITLE),
                    menu("metric", "Quantity", [(name, QUANTITIES[name].label) for name in _menu_order()]),
                    segments("mode", MODES),
                    html.Div(className="spring"),
                    segments("scale", (("log", "Log"), ("linear", "Linear"))),
                    menu("range", "Range", RANGES),
                ],
            ),
            html.Section(
                className="finding-bar",
                **{"aria-label": "Findings"},
                children=[
                    html.Span("Findings", id="finding-count"),
                    html.Div(id="findings"),
                    icon_button("previous", "finding-previous", "Previous finding"),
                    icon_button("next", "finding-next", "Next finding"),
                ],
            ),
            html.Div(
                className="panels",
                children=[
                    panel("profile", legend=_kinds()),
                    panel("gradient"),
                    panel("loss"),
                    panel("maps"),
                ],
            ),
        ],
    )


def _menu_order() -> list[str]:
    """The state first: it is what the page opens with."""
    return sorted(LAYER_QUANTITIES, key=lambda name: not name.startswith("state_"))


def _kinds() -> list[html.Span]:
    return [
        html.Span([html.Span(className="marker filled"), "attention"], className="key"),
        html.Span([html.Span(className="marker"), "MLP"], className="key"),
    ]
