"""A panel: header, plot, what lies over the plot, and the sentence for when there is nothing to plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dash import dcc, html

from depthscope.app.controls import icon_button
from depthscope.app.static import static

GRAPH_CONFIG: dict[str, Any] = {
    "displayModeBar": False,
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "doubleClick": False,
    "showTips": False,
    "locale": "en",
}


def panel(
    name: str,
    *,
    legend: Sequence[Any] = (),
    table: bool = False,
    container: Literal["table", "div"] = "table",
    key: bool = True,
    sample: bool = False,
) -> html.Section:
    """Return panel `name`: callbacks fill `title-`, `note-`, `graph-`, `warning-`, `empty-` and `key-` + name.

    With `table`, `table-` + name, an element of kind `container`, takes the place of the graph; without `key`, the key stands elsewhere on the
    page; with `sample`, the line sample of the panel's run leads the header.
    """
    return html.Section(
        id=f"panel-{name}",
        className=f"panel panel-{name}",
        **{"aria-labelledby": f"title-{name}"},
        children=[
            dcc.Store(id=f"ask-{name}"),
            *([dcc.Store(id=f"seen-{name}")] if table else []),
            html.Header(
                className="panel-head",
                children=[
                    *([html.Span(id=f"sample-{name}", className="run-sample")] if sample else []),
                    html.H2(id=f"title-{name}"),
                    html.Span(id=f"note-{name}", className="note"),
                    html.Span(id=f"warning-{name}", className="warning"),
                    *legend,
                    *([html.Span(id=f"key-{name}", className="key")] if key else []),
                    *([] if table else [static(_table_button(name))]),
                ],
            ),
            html.Div(
                className="panel-body",
                children=[
                    *(_table(name, container) if table else _graph(name)),
                    html.Div(id=f"empty-{name}", className="empty", role="status"),
                ],
            ),
        ],
    )


def left_out(name: str, *, names: bool = False) -> html.Span:
    """Return the place where the scripts say how many of the selected runs are shown; with `names` which are not."""
    return html.Span(
        id=f"left-out-{name}", className="note left-out", **({"data-names": ""} if names else {})
    )


def _table_button(name: str) -> html.Button:
    return icon_button("table", "table", "Show the data as a table", **{"data-panel": name})


def _graph(name: str) -> list[Any]:
    return [
        dcc.Graph(
            id=f"graph-{name}", config=GRAPH_CONFIG, responsive=True, figure=_blank(), className="graph"
        ),
        html.Div(id=f"overlay-{name}", className="overlay", **{"aria-hidden": "true"}),
    ]


def _table(name: str, container: str) -> list[Any]:
    described = {"aria-labelledby": f"title-{name}"}
    element = html.Table if container == "table" else html.Div
    return [
        html.Div(
            element(id=f"table-{name}", className=f"rows-{name}", **described), className="table-scroll"
        ),
        dcc.Store(id=f"mark-{name}"),
    ]


def table_rows(
    head: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    sorting: Mapping[str, tuple[str, str]] | None = None,
) -> list[Any]:
    """Return a table's content: `head` gives each column's title and class (``number`` or nothing).

    `sorting` gives, by title, the key of a column that can be sorted and how it is sorted now.
    """
    cells = [_head_cell(title, kind, (sorting or {}).get(title)) for title, kind in head]
    body = [
        html.Tr([html.Td(cell, className=kind) for cell, (_, kind) in zip(row, head, strict=True)])
        for row in rows
    ]
    return [html.Thead(html.Tr(cells)), html.Tbody(body)]


def _head_cell(title: str, kind: str, sorted_by: tuple[str, str] | None) -> html.Th:
    if sorted_by is None:
        return html.Th(title, className=kind, scope="col")
    key, way = sorted_by
    arrow = {"ascending": " ↑", "descending": " ↓"}.get(way, "")
    button = html.Button(
        f"{title}{arrow}", type="button", className="sort", **{"data-action": "sort", "data-key": key}
    )
    return html.Th(button, className=kind, scope="col", **{"aria-sort": way})


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
