"""The dialogs over the page: help, the data behind a plot, and export."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html

from depthscope.app.controls import icon_button, menu

KEYS: tuple[tuple[str, str], ...] = (
    ("← →", "previous and next step, with shift ten"),
    ("Home End", "first and newest step"),
    ("space", "play the steps"),
    ("p", "pin or unpin the step"),
    ("b", "difference to the baseline"),
    ("l", "log or linear"),
    ("1 … 9", "pages"),
    ("e", "export this page's figure"),
    ("/", "search runs"),
    ("?", "this help"),
)


def help_dialog() -> html.Dialog:
    rows = [html.Div([html.Dt(html.Kbd(key)), html.Dd(text)]) for key, text in KEYS]
    return html.Dialog(
        id="help",
        **{"aria-label": "Keys"},
        children=[
            html.Div(
                [html.Strong("Keys"), icon_button("close", "help", "Close")],
                className="dialog-head",
            ),
            html.Dl(rows),
            html.P(
                "Click a column of a map to go to its step; drag in a chart to zoom, double click to return."
            ),
        ],
    )


def data_dialog() -> html.Dialog:
    """Return the table view of the data behind a plot."""
    return html.Dialog(
        id="data",
        **{"aria-labelledby": "data-title"},
        children=[
            html.Div(
                className="dialog-head",
                children=[
                    html.Span(
                        [
                            html.Strong(id="data-title"),
                            html.Span(id="data-note", className="note", role="status"),
                        ]
                    ),
                    html.Span(
                        [
                            html.Button(
                                "CSV", type="button", className="button", **{"data-action": "save-table"}
                            ),
                            icon_button("close", "close-table", "Close"),
                        ]
                    ),
                ],
            ),
            html.Div(html.Table(id="data-table"), className="data-scroll"),
        ],
    )


def export_dialog(pages: Sequence[str]) -> html.Dialog:
    """Return the choice of a format and a width; the figure is the one that `depthscope export` writes.

    `pages` are those whose effects can be saved in place of their own figure.
    """
    figures = (("own", "this page's"), ("effects", "effects and their map"))
    formats = (("pdf", "PDF"), ("svg", "SVG"), ("png", "PNG, 300 dpi"), ("html", "HTML page"), ("csv", "CSV"))
    widths = (("column", "3.25 in"), ("text", "6.75 in"))
    return html.Dialog(
        id="export",
        **{"aria-labelledby": "export-title"},
        children=[
            html.Div(
                [
                    html.Strong("Export this page's figure", id="export-title"),
                    icon_button("close", "close-export", "Close"),
                ],
                className="dialog-head",
            ),
            html.Div(
                className="export-choices",
                children=[
                    *(html.Div(menu("exported", "Figure", figures), **{"data-of": page}) for page in pages),
                    menu("form", "Format", formats),
                    menu("width", "Width", widths),
                    html.Button("Save", type="button", className="button", **{"data-action": "save-export"}),
                ],
            ),
            html.P("An archive with the figure, its numbers, a caption for LaTeX, and where it comes from."),
        ],
    )
