"""Parts of the document that no callback changes: handed over as data, built by the scripts in assets.

Dash looks at every component of its document again and again while an answer arrives. Half of the components were
labels, options and keys; without them a step change on Depth attention takes a quarter less time.
"""

from __future__ import annotations

import json
from typing import Any

from dash.development.base_component import Component

_NAMES = {"className": "class", "htmlFor": "for", "tabIndex": "tabindex"}


def static(element: Component) -> Component:
    """Return `element` with its children as data: each a text, or a list of tag, attributes and its own children.

    Only elements of `dash.html` may be below `element`, and no callback may name one of them.
    """
    element.children, children = None, _parts(element.children)
    setattr(element, "data-static", json.dumps(children, ensure_ascii=False))
    return element


def _parts(children: Any) -> list[Any]:
    if children is None:
        return []
    given = children if isinstance(children, list | tuple) else [children]
    return [_described(child) if isinstance(child, Component) else str(child) for child in given]


def _described(element: Component) -> list[Any]:
    if element._namespace != "dash_html_components":
        raise TypeError(f"{element._type} is no plain element, and static() takes only those of dash.html")
    properties = dict(element.to_plotly_json()["props"])
    children = _parts(properties.pop("children", None))
    attributes = {_NAMES.get(name, name): value for name, value in properties.items()}
    return [element._type.lower(), attributes, children]
