"""Controls as plain elements: the scripts in assets act on ``data-action`` and show the state on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html


def icon(name: str) -> html.Span:
    """Return an icon; it says nothing to a screen reader, so the control around it needs a name."""
    return html.Span(className=f"icon icon-{name}", **{"aria-hidden": "true"})


def icon_button(name: str, action: str, label: str, **more: Any) -> html.Button:
    return html.Button(
        icon(name),
        type="button",
        className="button square",
        title=label,
        **{"data-action": action, "aria-label": label},
        **more,
    )


def segments(name: str, choices: Sequence[tuple[str, str]]) -> html.Div:
    """Return a segmented control that sets `name` to one of `choices` (value, label)."""
    return html.Div(
        className="segments",
        role="group",
        children=[
            html.Button(
                label,
                type="button",
                className="segment",
                **{"data-action": "set", "data-name": name, "data-value": value, "aria-pressed": "false"},
            )
            for value, label in choices
        ],
    )


def menu(name: str, label: str, choices: Sequence[tuple[str, str]]) -> html.Label:
    """Return a menu that sets `name` to one of `choices` (value, label)."""
    return html.Label(
        className="menu",
        children=[
            html.Span(label),
            html.Select([html.Option(text, value=value) for value, text in choices], **{"data-name": name}),
            icon("down"),
        ],
    )
