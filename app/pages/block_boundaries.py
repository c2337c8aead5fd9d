"""Block boundaries, the page: the state folded by position in block, and what changes where a sum restarts."""

from __future__ import annotations

from functools import partial
from typing import Any

from dash import html

from depthscope.analysis import THE_LINE, one_stream
from depthscope.app.controls import segments
from depthscope.app.export import PageFigure
from depthscope.app.page import Page, Panel
from depthscope.app.pages.block_boundaries_answers import boundary_answer
from depthscope.app.panel import panel
from depthscope.app.reading import CachedRun
from depthscope.figures import Show, has_blocks

PANELS: tuple[tuple[Show, str], ...] = (
    ("folded", "State by position in block"),
    ("sums", "State at block ends"),
    ("reset", "Reset over construction ratio"),
    ("read", "Read change across boundaries"),
)


def lacks_blocks(run: CachedRun) -> str:
    """Say why a run has no place here: it has no residual blocks, and no stream to be their control."""
    return "" if has_blocks(run) or one_stream(run.layout) else "no residual blocks"


def head() -> list[Any]:
    return [
        html.Span(THE_LINE, className="note head-note"),
        html.Div(className="spring"),
        segments("scale", (("log", "Log"), ("linear", "Linear"))),
    ]


def body() -> html.Div:
    return html.Div(
        className="panels boundary-panels", children=[panel(f"boundary-{show}") for show, _ in PANELS]
    )


BLOCK_BOUNDARIES = Page(
    name="boundaries",
    title="Block boundaries",
    head=head,
    body=body,
    lacks=lacks_blocks,
    figure=PageFigure(name="block-boundaries", options=lambda ask, runs: {"step": ask.step}),
    panels={
        f"boundary-{show}": Panel(title=title, answer=partial(boundary_answer, show=show))
        for show, title in PANELS
    },
)
