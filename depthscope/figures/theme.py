"""Colours and dashes of figures, read from `tokens.css`: the page and the figures share one source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

ThemeName = Literal["light", "dark"]
TOKENS = Path(__file__).with_name("tokens.css")

_COLOURS = 8
_DASHES = (
    "solid",
    "7px,3px",
    "2px,2px",
    "9px,3px,2px,3px",
    "12px,3px",
    "4px,4px",
    "1px,3px",
    "9px,2px,2px,2px,2px,2px",
)
_SEQUENTIAL = 11
_DIVERGING = 5


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The tokens of one theme by name, without the leading dashes: ``theme["chart-grid"]``."""

    name: ThemeName
    tokens: Mapping[str, str]

    def __getitem__(self, token: str) -> str:
        return self.tokens[token]

    def run_colour(self, slot: int) -> str:
        """Return the colour of run `slot`, counted from 1; past 8 the colours come again."""
        return self.tokens[f"run-{(slot - 1) % _COLOURS + 1}"]

    def sequential(self) -> list[list[float | str]]:
        """Return plotly's colour scale for values that start at one end (cividis)."""
        return self._scale("sequential", _SEQUENTIAL)

    def diverging(self) -> list[list[float | str]]:
        """Return plotly's colour scale for signed values; its middle is near the surface."""
        return self._scale("diverging", _DIVERGING)

    def _scale(self, kind: str, count: int) -> list[list[float | str]]:
        return [[i / (count - 1), self.tokens[f"{kind}-{i + 1}"]] for i in range(count)]


def run_dash(slot: int) -> str:
    """Return plotly's dash of run `slot`, counted from 1; runs that share a colour differ in dash."""
    return _DASHES[(slot - 1 + (slot - 1) // _COLOURS) % len(_DASHES)]


@cache
def theme(name: ThemeName) -> Theme:
    """Return the theme called `name`."""
    blocks = {
        "light": _declarations(r":root"),
        "dark": _declarations(r'\[data-theme="dark"\]'),
    }
    return Theme(
        name=name, tokens=MappingProxyType({**blocks["light"], **(blocks["dark"] if name == "dark" else {})})
    )


def _declarations(selector: str) -> dict[str, str]:
    text = re.sub(r"/\*.*?\*/", "", TOKENS.read_text(encoding="utf-8"), flags=re.DOTALL)
    block = re.search(selector + r"\s*\{(.*?)\}", text, flags=re.DOTALL)
    assert block is not None, f"{TOKENS.name} has no block {selector}"
    return {name: value.strip() for name, value in re.findall(r"--([\w-]+)\s*:\s*([^;]+);", block.group(1))}
