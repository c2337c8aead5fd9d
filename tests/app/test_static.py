"""What no callback changes is handed over as data: the document is the same, and Dash has half as much to look at."""

from __future__ import annotations

import json

import pytest
from dash import dcc, html

from depthscope.app.controls import menu
from depthscope.app.static import static


def test_an_element_keeps_what_it_is_and_describes_what_is_in_it() -> None:
    element = static(menu("width", "Width", (("column", "3.25 in"),)))
    assert element.children is None
    assert element.className == "menu"
    assert json.loads(getattr(element, "data-static")) == [
        ["span", {}, ["Width"]],
        ["select", {"data-name": "width"}, [["option", {"value": "column"}, ["3.25 in"]]]],
        ["span", {"class": "icon icon-down", "aria-hidden": "true"}, []],
    ]


def test_what_only_dash_can_draw_is_refused() -> None:
    with pytest.raises(TypeError, match="Store is no plain element"):
        static(html.Div([dcc.Store(id="kept")]))
