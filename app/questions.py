"""Requests to the callbacks: what the page of this app never sends is answered with 400, not with a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask
from dash import Dash
from werkzeug.wrappers import Response

_PATH = "/_dash-update-component"


def check_questions(app: Dash) -> None:
    """Refuse requests to `app`'s callbacks that name no callback, or not the inputs that it has."""

    def refuse_nonsense() -> Response | None:
        if flask.request.method != "POST" or not flask.request.path.endswith(_PATH):
            return None
        wrong = problem(flask.request.get_json(silent=True), app.callback_map)
        return Response(f"Bad request: {wrong}.\n", status=400, mimetype="text/plain") if wrong else None

    app.server.before_request(refuse_nonsense)


def problem(body: Any, callbacks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what is wrong with a request's body; empty where Dash can dispatch it."""
    if not isinstance(body, dict):
        return "the body is no JSON object"
    output = body.get("output")
    if not isinstance(output, str) or output not in callbacks:
        return "its output names no callback of this app"
    for part in ("inputs", "state"):
        wanted = [(entry["id"], entry["property"]) for entry in callbacks[output][part]]
        if _places(body.get(part, [])) != wanted:
            return f"its {part} are not those of the callback"
    places = [place for place in output.strip(".").split("...") if place]
    outputs = body.get("outputs")
    found = _places(outputs if isinstance(outputs, list) else [outputs])
    if found is None or [f"{name}.{prop}" for name, prop in found] != places:
        return "its outputs are not those of the callback"
    changed = body.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(entry, str) for entry in changed):
        return "changedPropIds is no list of names"
    return ""


def _places(entries: Any) -> list[tuple[str, str]] | None:
    """Return (id, property) of each entry; None for what is no list of them."""
    if not isinstance(entries, list):
        return None
    found = []
    for entry in entries:
        named = isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("id", "property"))
        if not named:
            return None
        found.append((entry["id"], entry["property"]))
    return found
