"""A panel: header, plot, what lies over the plot, and the sentence for when there is nothing to plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

GRAPH_CONFIG: dict[str, Any] = {
    "displayModeBar": False,
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "doubleClick": False,
    "showTips": False,
    "locale": "en",
}


def panel(name: str, *, legend: Sequence[Any] = ()) -> html.Section:
    """Return panel `name`: callbacks fill `title-`, `note-`, `graph-`, `warning-`, `empty-` and `key-` + name."""
    return html.Section(
        id=f"panel-{name}",
        className=f"panel panel-{name}",
        **{"aria-labelledby": f"title-{name}"},
        children=[
            dcc.Store(id=f"ask-{name}"),
            dcc.Store(id=f"seen-{name}"),
            html.Header(
                className="panel-head",
                children=[
                    html.H2(id=f"title-{name}"),
                    html.Span(id=f"note-{name}", className="note"),
                    html.Span(id=f"warning-{name}", className="warning"),
                    html.Div(className="spring"),
                    *legend,
                    html.Span(id=f"key-{name}", className="key"),
                ],
            ),
            html.Div(
                className="panel-body",
                children=[
                    dcc.Graph(
                        id=f"graph-{name}",
                        config=GRAPH_CONFIG,
                        responsive=True,
                        figure=_blank(),
                        className="graph",
                    ),
                    html.Div(id=f"overlay-{name}", className="overlay", **{"aria-hidden": "true"}),
                    html.Div(id=f"empty-{name}", className="empty", role="status"),
                ],
            ),
        ],
    )


def empty_words(reason: str, remedy: str = "", command: str = "") -> list[Any]:
    """Return one sentence with the reason, and one with how to record it."""
    words: list[Any] = [html.P(reason)]
    if remedy or command:
        words.append(
            html.P([remedy, " " if remedy and command else "", html.Code(command)] if command else remedy)
        )
    return words


def _blank() -> dict[str, Any]:
    """A figure without axes: nothing is drawn before the first answer."""
    hidden = {"visible": False}
    return {
        "data": [],
        "layout": {
            "xaxis": hidden,
            "yaxis": hidden,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        },
    }
