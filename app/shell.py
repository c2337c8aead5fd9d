"""The frame around every page: header, run drawer, step bar, help; filled by the scripts in assets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from depthscope.app.controls import icon, icon_button, segments
from depthscope.app.dialogs import data_dialog, export_dialog, help_dialog
from depthscope.app.page import Page
from depthscope.app.static import static

POLL_MS = 2000


def shell(pages: Sequence[Page], prefix: str, catalogue: dict[str, Any]) -> html.Div:
    """Return the whole document with every page in it; `prefix` is the path in front of every address."""
    return html.Div(
        id="app",
        children=[
            dcc.Store(id="catalogue", data=catalogue),
            dcc.Store(id="timeline"),
            dcc.Store(id="ask-timeline"),
            dcc.Store(id="seen-catalogue"),
            dcc.Store(id="seen-timeline"),
            dcc.Interval(id="poll", interval=POLL_MS),
            html.A("Skip to the page", href="#page", className="skip"),
            static(header(pages, prefix)),
            drawer(),
            main(pages),
            step_bar(),
            static(help_dialog()),
            static(data_dialog()),
            static(export_dialog([page.name for page in pages if page.effects is not None])),
            dcc.Store(id="ask-rows"),
            dcc.Store(id="table-rows"),
            dcc.Store(id="seen-tabled"),
            dcc.Store(id="ask-csv"),
            dcc.Download(id="download-csv"),
            dcc.Store(id="ask-export"),
            dcc.Download(id="download"),
            html.Div(id="tooltip", hidden=True, role="tooltip"),
            html.Div(id="full-text", hidden=True, role="status"),
            html.Div(id="toast", role="alert"),
        ],
    )


def main(pages: Sequence[Page]) -> html.Main:
    """Return the pages: each has its head and its body, the findings line between them belongs to all."""
    return html.Main(
        id="page",
        tabIndex="-1",
        children=[
            dcc.Store(id="ask-findings"),
            dcc.Store(id="findings-mark"),
            dcc.Store(id="seen-findings"),
            *(
                static(html.Div([html.H1(page.title), *page.head()], className="head", **_of(page, place)))
                for place, page in enumerate(pages)
            ),
            html.Section(
                className="finding-bar",
                **{"aria-label": "Findings"},
                children=[
                    html.Span("Findings", id="finding-count"),
                    html.Div(id="findings"),
                    static(icon_button("previous", "finding-previous", "Previous finding")),
                    static(icon_button("next", "finding-next", "Next finding")),
                ],
            ),
            *(
                html.Div(page.body(), className=f"body body-{page.name}", **_of(page, place))
                for place, page in enumerate(pages)
            ),
        ],
    )


def _of(page: Page, place: int) -> dict[str, Any]:
    return {"data-of": page.name, "hidden": place > 0}


def header(pages: Sequence[Page], prefix: str) -> html.Header:
    tabs = [
        html.A(
            page.title,
            href=f"{prefix}{page.name}",
            className="page-tab",
            **{"data-action": "page", "data-page": page.name},
            **_current(place == 0),
        )
        for place, page in enumerate(pages)
    ]
    return html.Header(
        id="header",
        children=[
            html.Div([icon("logo"), html.Strong("depthscope")], className="brand"),
            html.Nav(tabs, **{"aria-label": "Pages"}),
            html.Div(
                className="tools",
                children=[
                    html.Button(
                        [html.Span(className="dot"), html.Span(id="live-text")],
                        id="live",
                        type="button",
                        className="button",
                        title="New rows appear as they are recorded; press to pause",
                        **{"data-action": "live", "aria-label": "Live"},
                    ),
                    icon_button("theme", "theme", "Switch between light and dark"),
                    html.Button(
                        [icon("export"), "Export"],
                        id="export-button",
                        type="button",
                        className="button",
                        **{"data-action": "export"},
                    ),
                    html.Button(
                        "?",
                        type="button",
                        className="button square",
                        title="Keys (?)",
                        **{"data-action": "help", "aria-label": "Help: keys"},
                    ),
                ],
            ),
        ],
    )


def drawer() -> html.Aside:
    return html.Aside(
        id="drawer",
        **{"aria-label": "Runs"},
        children=[
            html.Div(
                className="search",
                children=[
                    icon("search"),
                    dcc.Input(
                        id="search", type="text", placeholder="Search runs", autoComplete="off", debounce=True
                    ),
                    html.Kbd("/"),
                ],
            ),
            html.Div([html.Span(id="runs-count"), html.Span("last step")], className="runs-head"),
            html.Ul(id="runs"),
            static(
                html.Div(
                    className="hints",
                    children=[
                        html.Div([html.Kbd("← →"), html.Span("step, with shift ten")]),
                        html.Div([html.Kbd("b"), html.Span("difference to baseline")]),
                        html.Div([html.Kbd("?"), html.Span("all keys")]),
                    ],
                )
            ),
        ],
    )


def step_bar() -> html.Footer:
    return html.Footer(
        id="stepbar",
        **{"aria-label": "Step"},
        children=[
            static(
                html.Div(
                    className="transport",
                    children=[
                        icon_button("previous", "previous", "Previous step (←)"),
                        icon_button("play", "play", "Play (space)", id="play"),
                        icon_button("next", "next", "Next step (→)"),
                    ],
                )
            ),
            html.Label("Step", htmlFor="step-input"),
            dcc.Input(id="step-input", type="text", inputMode="numeric", autoComplete="off", debounce=True),
            html.Span(id="step-of"),
            icon_button("pin", "pin", "Pin this step (p)", id="pin"),
            static(
                html.Div(
                    id="slider",
                    role="slider",
                    tabIndex="0",
                    **{
                        "aria-label": "Step",
                        "aria-valuemin": "0",
                        "aria-valuemax": "0",
                        "aria-valuenow": "0",
                    },
                    children=[
                        html.Div(id="slider-pins"),
                        html.Div(id="slider-label"),
                        html.Div(id="slider-track"),
                        html.Div(id="slider-past"),
                        html.Div(id="slider-ticks"),
                        html.Div(id="slider-thumb"),
                        html.Div(id="slider-phases"),
                    ],
                )
            ),
            static(
                html.Div(
                    className="alignment",
                    children=[
                        html.Span("Compare at equal"),
                        segments(
                            "align", (("step", "step"), ("tokens", "tokens"), ("loss", "validation loss"))
                        ),
                    ],
                )
            ),
        ],
    )


def _current(current: bool) -> dict[str, str]:
    return {"aria-current": "page"} if current else {}
