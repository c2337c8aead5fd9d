"""The callbacks on the server: the catalogue of runs, timelines, and one answer for each panel."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, html, set_props

from depthscope.app.answer import Answer, as_outputs, nothing_selected
from depthscope.app.findings import finding_rows
from depthscope.app.pages.depth_profile_answers import loss_answer, map_answer, profile_answer
from depthscope.app.reading import CachedRun
from depthscope.app.registry import Registry
from depthscope.app.state import Ask, read_ask
from depthscope.app.timeline import timeline

logger = logging.getLogger("depthscope.app")
PANELS = ("profile", "gradient", "loss", "maps")


def connect(app: Dash, registry: Registry) -> None:
    """Register every callback on `app`."""
    _connect_catalogue(app, registry)
    _connect_panels(app, registry)
    for name, store in (("catalogue", "catalogue"), ("timeline", "timeline"), ("findings", "findings-mark")):
        app.clientside_callback(
            ClientsideFunction("depthscope", name), Output(f"seen-{name}", "data"), Input(store, "data")
        )
    for panel in PANELS:
        app.clientside_callback(
            ClientsideFunction("depthscope", panel),
            Output(f"seen-{panel}", "data"),
            Input(f"graph-{panel}", "figure"),
        )


def show_error(registry: Registry, error: Exception) -> None:
    """Turn an unexpected error of a callback into a toast with its text; the panels stay."""
    logger.error("a callback failed", exc_info=error)
    text = f"{type(error).__name__}: {registry.without_root(str(error))}"
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
        return finding_rows(runs, ask.base), {"asked": ask.mark}

    app.callback(Output("catalogue", "data"), Input("poll", "n_intervals"), prevent_initial_call=True)(poll)
    app.callback(Output("timeline", "data"), Input("ask-timeline", "data"), prevent_initial_call=True)(
        answer_timeline
    )
    app.callback(
        [Output("findings", "children"), Output("findings-mark", "data")],
        Input("ask-findings", "data"),
        prevent_initial_call=True,
    )(answer_findings)


def _connect_panels(app: Dash, registry: Registry) -> None:
    def answered(
        data: Any, answer: Callable[[Ask, list[CachedRun], Mapping[str, int]], Answer], title: str
    ) -> list[Any]:
        ask, runs, slots = _question(data, registry)
        if runs:
            shown = answer(ask, runs, slots)
        else:
            shown = Answer(title=title, empty=nothing_selected(bool(slots), registry.root.name))
        return [*as_outputs(shown, ask), shown.definition, shown.key]

    def answer_profile(data: Any) -> Any:
        return answered(data, partial(profile_answer, end_labels=True), "State after each write")

    def answer_gradient(data: Any) -> Any:
        return answered(data, partial(profile_answer, end_labels=False), "Gradient at the write")

    def answer_loss(data: Any) -> Any:
        return answered(data, loss_answer, "Validation loss")

    def answer_maps(data: Any) -> Any:
        return answered(data, map_answer, "State by sublayer and step")

    answers = {
        "profile": answer_profile,
        "gradient": answer_gradient,
        "loss": answer_loss,
        "maps": answer_maps,
    }
    for panel, answer in answers.items():
        app.callback(_outputs(panel), Input(f"ask-{panel}", "data"), prevent_initial_call=True)(answer)


def _outputs(panel: str) -> list[Output]:
    """The parts of a panel, in the order of `as_outputs`, then the definition and the key."""
    parts = ("title", "note", "warning", "empty")
    return [
        Output(f"graph-{panel}", "figure"),
        *(Output(f"{part}-{panel}", "children") for part in parts),
        Output(f"title-{panel}", "title"),
        Output(f"key-{panel}", "children"),
    ]


def _question(data: Any, registry: Registry) -> tuple[Ask, list[CachedRun], Mapping[str, int]]:
    slots = registry.slots()
    ask = read_ask(data, slots)
    return ask, registry.runs(ask.runs), slots
