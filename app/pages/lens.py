"""Lens, the page: what each state would say, what sources add to a logit, how alike depths are."""

from __future__ import annotations

from functools import partial
from typing import Any

from dash import html

from depthscope.analysis import LENS
from depthscope.app.export import PageFigure
from depthscope.app.page import Page, Panel
from depthscope.app.pages.lens_answers import lens_answer, tokens_answer
from depthscope.app.panel import panel
from depthscope.app.reading import CachedRun
from depthscope.figures import LENS_VIEWS, LensShow

SHOWN: tuple[LensShow, ...] = ("kl", "agreement", "influence", "attribution", "cka")
_READING = (
    "Measured on a checkpoint, not recorded in training: the states are those that the next sublayer reads. A lens "
    "describes; only an intervention shows an effect."
)


def lacks_lens(run: CachedRun) -> str:
    """Say why a run has nothing here: nobody has looked into one of its checkpoints."""
    return "" if any(sweep.kind == LENS for sweep in run.sweeps()) else "no lens measured"


def head() -> list[Any]:
    return [html.Div(className="spring"), html.Span(_READING, className="note head-note")]


def body() -> html.Div:
    return html.Div(
        id="lens-panels",
        className="panels lens-panels",
        children=[*(panel(f"lens-{show}") for show in SHOWN), panel("lens-tokens")],
    )


LENS_PAGE = Page(
    name="lens",
    title="Lens",
    head=head,
    body=body,
    lacks=lacks_lens,
    figure=PageFigure(name="lens", options=lambda ask, runs: {"step": ask.step}),
    panels={
        **{
            f"lens-{show}": Panel(title=LENS_VIEWS[show].title, answer=partial(lens_answer, show=show))
            for show in SHOWN
        },
        "lens-tokens": Panel(title="Token by token", answer=tokens_answer),
    },
)
