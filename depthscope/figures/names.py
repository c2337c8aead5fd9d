"""Run names in plotly text: what people type may hold tags and templates, which plotly would render."""

from __future__ import annotations

_LONGEST = 28


def shortened(name: str, longest: int = _LONGEST) -> str:
    """Return `name` in one line of at most `longest` characters, its middle left out."""
    line = " ".join(name.split()) or "(no name)"
    if len(line) <= longest:
        return line
    tail = longest // 3
    return f"{line[: longest - tail - 1]}…{line[-tail:]}"


def plotly_text(name: str) -> str:
    """Return `name` shortened, as text that plotly shows literally: no tags, entities or %{templates}."""
    text = shortened(name)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text.replace("%{", "%\u200b{")
