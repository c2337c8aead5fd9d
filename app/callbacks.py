"""The callbacks on the server: the catalogue of runs, timelines, and one answer for each panel of each page."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, dcc, html, no_update, set_props

from depthscope.app.answer import Answer, as_outputs, nothing_selected
from depthscope.app.export import PageFigure, archive
from depthscope.app.findings import finding_rows
from depthscope.app.numbers import first_rows, panel_numbers, whole_csv
from depthscope.app.page import Page, Panel
from depthscope.app.reading import CachedRun
from depthscope.app.registry import Registry
from depthscope.app.state import Ask, read_ask
from depthscope.app.timeline import timeline

logger = logging.getLogger("depthscope.app")


def connect(app: Dash, registry: Registry, pages: Sequence[Page]) -> None:
    """Register every callback on `app`."""
    _connect_catalogue(app, registry)
    _connect_table(app, registry)
    _connect_export(app, registry, {page.name: page for page in pages})
    for page in pages:
        for name, panel in page.panels.items():
            _connect_panel(app, registry, name, panel)
    arrivals = {
        "catalogue": "catalogue",
        "timeline": "timeline",
        "tabled": "table-rows",
        "marked": "findings-mark",
    }
    for name, store in arrivals.items():
        seen = "findings" if name == "marked" else name
        app.clientside_callback(
            ClientsideFunction("depthscope", name), Output(f"seen-{seen}", "data"), Input(store, "data")
        )


def show_error(registry: Registry, error: Exception) -> None:
    """Turn an unexpected error of a callback into a toast with its text; the panels stay."""
    logger.error("a callback failed", exc_info=error)
    _toast(f"{type(error).__name__}: {registry.without_root(str(error))}")


def _toast(text: str) -> None:
    close = html.Button("Close", type="button", className="button", **{"data-action": "close-toast"})
    set_props("toast", {"children": [html.Span(text), close]})


def _connect_catalogue(app: Dash, registry: Registry) -> None:
    def poll(_: int | None) -> Any:
        return registry.catalogue()

    def answer_timeline(data: Any) -> Any:
        ask, runs, _ = _question(data, registry)
        return {"asked": ask.mark, "runs": {run.id: timeline(run) for run in runs}}

    def answer_findings(data: Any) -> Any:
        ask, runs, _ = _question(data, registry)
        return finding_rows(runs, ask.base, ask.page), {"asked": ask.mark}

    app.callback(Output("catalogue", "data"), Input("poll", "n_intervals"), prevent_initial_call=True)(poll)
    app.callback(Output("timeline", "data"), Input("ask-timeline", "data"), prevent_initial_call=True)(
        answer_timeline
    )
    app.callback(
        [Output("findings", "children"), Output("findings-mark", "data")],
        Input("ask-findings", "data"),
        prevent_initial_call=True,
    )(answer_findings)


def _connect_table(app: Dash, registry: Registry) -> None:
    def rows(data: Any) -> Any:
        ask, runs, _ = _question(data, registry)
        table = first_rows(panel_numbers(str(ask.mark["panel"]), ask, runs))
        return {
            "columns": table.columns,
            "rows": list(table.rows),
            "total": table.total,
            "key": ask.mark["key"],
        }

    def save(data: Any) -> Any:
        ask, runs, _ = _question(data, registry)
        name = str(ask.mark["panel"])
        panels = panel_numbers(name, ask, runs)
        return dcc.send_bytes(whole_csv(panels), f"{name}.csv") if panels else no_update

    app.callback(Output("table-rows", "data"), Input("ask-rows", "data"), prevent_initial_call=True)(rows)
    app.callback(Output("download-csv", "data"), Input("ask-csv", "data"), prevent_initial_call=True)(save)


def _connect_export(app: Dash, registry: Registry, pages: Mapping[str, Page]) -> None:
    def save(data: Any) -> Any:
        ask, runs, slots = _question(data, registry)
        asked = data if isinstance(data, Mapping) else {}
        figure = _exported(pages.get(ask.page), asked.get("exported"))
        if figure is None or not runs:
            return no_update
        try:
            name, content = archive(
                figure,
                ask,
                runs,
                slots,
                form=str(asked.get("form")),
                width=str(asked.get("width")),
                root=registry.root,
            )
        except (ValueError, ImportError) as error:
            _toast(registry.without_root(str(error)))
            return no_update
        return dcc.send_bytes(content, name)

    app.callback(Output("download", "data"), Input("ask-export", "data"), prevent_initial_call=True)(save)


def _exported(page: Page | None, wanted: Any) -> PageFigure | None:
    """Return the figure of a page that is saved: its own, or that of the effects where these are wanted."""
    if page is None:
        return None
    return page.effects if wanted == "effects" and page.effects is not None else page.figure


def _connect_panel(app: Dash, registry: Registry, name: str, panel: Panel) -> None:
    def answered(data: Any) -> list[Any]:
        ask, runs, slots = _question(data, registry)
        if runs:
            shown = panel.answer(ask, runs, slots)
        else:
            shown = Answer(title=panel.title, empty=nothing_selected(bool(slots), registry.root.name))
        return as_outputs(shown, ask, table=panel.table, keyed=panel.keyed)

    app.callback(_outputs(name, panel), Input(f"ask-{name}", "data"), prevent_initial_call=True)(answered)
    if panel.table:
        app.clientside_callback(
            ClientsideFunction("depthscope", "marked"),
            Output(f"seen-{name}", "data"),
            Input(f"mark-{name}", "data"),
        )


def _outputs(name: str, panel: Panel) -> list[Output]:
    """The parts of a panel, in the order of `as_outputs`."""
    content = Output(f"table-{name}", "children") if panel.table else Output(f"graph-{name}", "figure")
    return [
        content,
        *(Output(f"{part}-{name}", "children") for part in ("title", "note", "warning", "empty")),
        Output(f"title-{name}", "title"),
        *([Output(f"key-{name}", "children")] if panel.keyed else []),
        *([Output(f"mark-{name}", "data")] if panel.table else []),
    ]


def _question(data: Any, registry: Registry) -> tuple[Ask, list[CachedRun], Mapping[str, int]]:
    slots = registry.slots()
    ask = read_ask(data, slots)
    return ask, registry.runs(ask.runs), slots
