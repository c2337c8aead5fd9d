"""Skip paths, the page: distant sources that keep a weight well above uniform, as arcs and as a table."""

from __future__ import annotations

from typing import Any

from dash import html

from depthscope.app.controls import menu, segments
from depthscope.app.export import PageFigure
from depthscope.app.page import Page, Panel
from depthscope.app.pages.depth_attention import NO_EFFECT, lacks_attention
from depthscope.app.pages.effects_answers import EFFECTS_FIGURE, effects_answer
from depthscope.app.pages.skip_paths_answers import arcs_answer, paths_answer
from depthscope.app.panel import panel
from depthscope.figures import AGAINST

_TOP = tuple((str(count), f"top {count}") for count in (6, 12, 24, 60))
_THRESHOLD = (("0", "any"), *((str(percent), f"≥ {percent / 100:g}") for percent in (10, 20, 30, 50)))
_DISTANCE = tuple((str(distance), f"≥ {distance}") for distance in (2, 3, 4, 6, 8, 12, 24))
_CUTS = (
    ("any", "as measured"),
    ("renormalise", "renormalise"),
    ("zero", "zero"),
    ("mean", "mean over tokens"),
    ("resample", "another batch"),
)
_CRITERION = (
    "A skip path: distance 2 or more, four sources or more, mean weight of the last tenth of records at least "
    "2/sources and 0.1, above it in 90 % of them."
)


def head() -> list[Any]:
    return [
        menu("top", "Of each run", _TOP),
        menu("threshold", "Weight", _THRESHOLD),
        menu("distance", "Distance", _DISTANCE),
        html.Div(className="spring"),
        html.Span("Effect against", className="head-note"),
        segments("against", tuple((each, each.capitalize()) for each in AGAINST)),
        menu("cut", "Cut by", _CUTS),
    ]


def body() -> html.Div:
    return html.Div(
        className="paths-panels",
        children=[
            html.Div(
                className="key-row",
                children=[
                    html.Span(_CRITERION, className="note"),
                    html.Div(className="spring"),
                    html.Span(NO_EFFECT, className="note stays"),
                ],
            ),
            html.Div(className="paths-charts", children=[panel("arcs"), panel("effects")]),
            panel("paths", table=True),
        ],
    )


SKIP_PATHS = Page(
    name="paths",
    title="Skip paths",
    head=head,
    body=body,
    lacks=lacks_attention,
    figure=PageFigure(
        name="skip-paths",
        options=lambda ask, runs: {
            "step": ask.step,
            "top": ask.top,
            "least_weight": ask.least_weight,
            "least_distance": ask.least_distance,
            "cut": ask.cut,
        },
    ),
    effects=EFFECTS_FIGURE,
    panels={
        "arcs": Panel(title="Skip paths over depth", answer=arcs_answer),
        "effects": Panel(title="Effect of a cut", answer=effects_answer),
        "paths": Panel(title="Skip paths", answer=paths_answer, table=True),
    },
)
