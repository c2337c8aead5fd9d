"""Keys: what the colours, the hatching and the dots of a map mean, as flat swatches with both ends written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dash import html

from depthscope.figures import Limits, significant


def scale_key(
    scale: Sequence[Sequence[Any]], limits: Limits, *, log: bool = False, label: str = "", swatches: int = 13
) -> html.Span:
    """Return the key of a colour scale; ``≤`` and ``≥`` say that values lie beyond an end."""
    low = f"{'≤ ' if limits.clips_low else ''}{significant(limits.low, 2)}"
    high = f"{'≥ ' if limits.clips_high else ''}{significant(limits.high, 2)}"
    strip = [html.Span(style={"background": _colour(scale, i / (swatches - 1))}) for i in range(swatches)]
    title = f"colours from {low} to {high}, {'logarithmic' if log else 'linear'}"
    parts = [*([html.Span(label)] if label else []), html.Span(low), html.Span(strip, className="swatches")]
    return html.Span([*parts, html.Span(high)], className="scale", title=title)


def hatch_key(words: str) -> html.Span:
    """Return the key of hatched cells."""
    return html.Span([html.Span(className="hatch"), words], className="hatch-key")


def kind_keys() -> list[html.Span]:
    """Return the keys of attention and MLP."""
    return [
        html.Span([html.Span(className="marker filled"), "attention"], className="key"),
        html.Span([html.Span(className="marker"), "MLP"], className="key"),
    ]


def disagreement_keys(free: int, costly: int, rule: str) -> list[html.Span]:
    """Return the keys of paths whose routing and effect disagree, each with how many there are; `rule` says which."""
    kinds = (("square", free, "wide, no cost seen"), ("triangle", costly, "narrow, costs much"))
    return [
        html.Span([html.Span(className=f"marker {shape}"), f"{count} {words}"], className="key", title=rule)
        for shape, count, words in kinds
    ]


def _colour(scale: Sequence[Sequence[Any]], place: float) -> str:
    """Return the colour at `place` (0 to 1) of a plotly colour scale, mixed linearly."""
    for (low, first), (high, second) in pairwise(scale):
        if place <= high + 1e-9:
            share = (place - low) / (high - low)
            pairs = ((int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5))
            return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)
    return str(scale[-1][1])
