"""Text can be read in both themes: WCAG 2 contrast of every text colour on every surface it stands on."""

from __future__ import annotations

import re
from itertools import product
from typing import Literal

import pytest

from depthscope.figures import theme

TEXTS = ("text", "text-secondary", "text-muted", "accent", "status-warning")
STATUS = ("status-live", "status-finished", "status-crashed")
"""Dots and borders beside words: 3 to 1 is what WCAG asks of graphics."""
SURFACES = ("canvas", "surface", "surface-inset")
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_and_the_grey_of_the_standard_4_54() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize(("name", "text", "surface"), [*product(THEMES, TEXTS, SURFACES)])
def test_every_text_can_be_read_on_every_surface(
    name: Literal["light", "dark"], text: str, surface: str
) -> None:
    tokens = theme(name)
    assert contrast(tokens[text], tokens[surface]) >= 4.5


@pytest.mark.parametrize(("name", "status", "surface"), [*product(THEMES, STATUS, SURFACES)])
def test_every_status_can_be_seen(name: Literal["light", "dark"], status: str, surface: str) -> None:
    tokens = theme(name)
    assert contrast(tokens[status], tokens[surface]) >= 3


def test_no_rule_of_the_shell_fades_text() -> None:
    """Opacity lowers a contrast that was computed; only samples, ticks and things switched off have one."""
    from depthscope.app.application import _ASSETS

    faded = {
        selector.strip()
        for path in _ASSETS.glob("*.css")
        for selector, rules in re.findall(r"([^{}]+)\{([^{}]*)\}", path.read_text("utf-8"))
        if re.search(r"(?<![\w-])opacity: (?!0;|0 |1)", rules)
    }
    assert faded <= {".run-check:disabled", ".run:not(.selected) .sample", '.segment[aria-disabled="true"]'}
