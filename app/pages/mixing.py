"""Mixing, the page: what every read is made of, by origin, in any design: maps side by side, one read, one entry."""

from __future__ import annotations

from functools import partial
from typing import Any

from dash import html

from depthscope.app.absent import lacks_quantity
from depthscope.app.controls import segments
from depthscope.app.export import PageFigure
from depthscope.app.page import Page, Panel
from depthscope.app.pages.mixing_answers import map_answer, options, row_answer, series_answer
from depthscope.app.panel import left_out, panel
from depthscope.app.reading import CachedRun
from depthscope.app.static import static

MAPS = ("mixing-1", "mixing-2", "mixing-3", "mixing-4")
"""Map panels: as many runs are shown at once."""
_ORIGINS = {
    "contribution": "A row is one read, a column is where it comes from: the embedding, a sublayer before it, biases "
    "(const).",
    "coefficient": "A row is one read, a column is where it comes from: the embedding or a sublayer before it.",
}
_READING = {
    "contribution-absolute": "A cell is a share of the row: signed, the row sums to 1. It describes this forward "
    "pass, not an effect.",
    "contribution-difference": "A cell is a share of the row minus the baseline's, or the pinned step's: the row sums "
    "to 0. It describes forward passes, not an effect.",
    "coefficient-absolute": "A cell is the factor with which the read holds it. Only designs that scale by numbers "
    "have factors.",
    "coefficient-difference": "A cell is the factor with which the read holds it minus the baseline's, or the pinned "
    "step's. Only designs that scale by numbers have factors.",
}
"""What a cell is, by share and mode."""
_SHARES = (("contribution", "Contribution"), ("coefficient", "Coefficient"))
_MODES = (("plain", "Absolute"), ("difference", "Difference"))


def lacks_mixing(run: CachedRun) -> str:
    """Say why a run has no maps: mixing was not recorded."""
    return lacks_quantity(run, "mixing_contribution", True, "mixing")


def head() -> list[Any]:
    """Return the page's controls; the scripts fill `only-mixing` with the runs that have maps."""
    return [
        segments("share", _SHARES),
        segments("mixing", _MODES),
        html.Div(className="spring"),
        html.Div(id="only-mixing", className="segments", role="group", **{"aria-label": "Runs"}),
    ]


def body() -> html.Div:
    return html.Div(
        className="mixing-panels",
        children=[
            static(
                html.P(
                    [
                        html.Span(f"{_ORIGINS[view.partition('-')[0]]} {text}", id=f"reading-{view}")
                        for view, text in _READING.items()
                    ],
                    className="mixing-reading",
                )
            ),
            html.Div(
                className="key-row",
                children=[html.Span(id="key-mixing-1", className="key"), left_out("mixing-maps", names=True)],
            ),
            html.Div(
                id="mixing-maps",
                className="maps",
                children=[panel(name, key=False, sample=True) for name in MAPS],
            ),
            html.Div(
                id="mixing-lines",
                className="mixing-lines",
                children=[panel(name, legend=[left_out(name)]) for name in ("mixing-row", "mixing-series")],
            ),
        ],
    )


MIXING = Page(
    name="mixing",
    title="Mixing",
    head=head,
    body=body,
    lacks=lacks_mixing,
    figure=PageFigure(name="mixing", options=lambda ask, runs: vars(options(ask, runs))),
    panels={
        **{
            name: Panel(title="Mixing", answer=partial(map_answer, keyed=place == 0), keyed=place == 0)
            for place, name in enumerate(MAPS)
        },
        "mixing-row": Panel(title="One read by origin", answer=row_answer, keyed=False),
        "mixing-series": Panel(title="One share over steps", answer=series_answer),
    },
)
