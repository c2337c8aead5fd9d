"""Ticks: block ends on depth axes, 1-2-5 or decades on log axes, round steps on time axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

_MOST = 8


def round_step(span: float, wanted: int) -> float:
    """Return the round distance (1, 2 or 5 times a power of ten) that puts about `wanted` ticks in `span`."""
    if span <= 0 or not math.isfinite(span):
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / wanted))
    distances = [factor * power for factor in (1, 2, 5, 10)]
    return min(distances, key=lambda distance: abs(span / distance - wanted))


def round_ticks(low: float, high: float, wanted: int) -> list[float]:
    """Return round numbers from `low` to `high`, ends included where they are round."""
    distance = round_step(high - low, wanted)
    first, last = math.ceil(low / distance - 1e-9), math.floor(high / distance + 1e-9)
    return [round(place * distance, 12) for place in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return tick values for a log axis from 10**low to 10**high: decades where three fit, else 1-2-5."""
    first, last = math.floor(low), math.ceil(high)
    every = max(1, round((high - low) / 6))
    decades = [10.0**power for power in range(first, last + 1) if power % every == 0 and low <= power <= high]
    if high - low > 2 and len(decades) >= 3:
        return decades
    values = [float(f"{factor}e{power}") for power in range(first, last + 1) for factor in (1, 2, 5)]
    inside = [value for value in values if low <= math.log10(value) <= high]
    return inside if len(inside) >= 2 else round_ticks(10.0**low, 10.0**high, 4)


def value_ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Return ticks for a value axis from `low` to `high`, in decades when `log`; at least three where they fit."""
    if not log:
        return round_ticks(low, high, 5)
    ticks = log_ticks(low, high)
    if len(ticks) >= 3:
        return ticks
    powers = range(math.floor(low), math.ceil(high) + 1)
    finer = [float(f"{factor}e{power}") for power in powers for factor in (1, 1.5, 2, 3, 4, 5, 7)]
    inside = [tick for tick in finer if low <= math.log10(tick) <= high]
    return inside if len(inside) >= 3 else round_ticks(10.0**low, 10.0**high, 4)


def layer_ticks(layers: int, residual_block: Sequence[int]) -> list[int]:
    """Return the sublayers to label: 1, then the ends of residual blocks, at most 8 in all.

    Without residual blocks (or with one for each sublayer) round numbers stand in for their ends. Labels on the
    shortest axis that is drawn would touch nearer than a ninth of the depth: the first gives way to the last.
    """
    ends = [
        layer
        for layer in range(1, layers + 1)
        if layer == layers or residual_block[layer - 1] != residual_block[layer]
    ]
    if len(ends) < 2 or len(ends) > layers // 2:
        distance = 2 ** max(0, math.ceil(math.log2(layers / 6)))
        ends = [
            *(layer for layer in range(distance, layers, distance) if layers - layer >= distance / 2),
            layers,
        ]
    every = math.ceil(len(ends) / (_MOST - 1))
    wanted = ends[::-1][::every]
    return spaced([wanted[0], 1, *wanted[1:]], apart=layers / 9)


def spaced(wanted: Sequence[int], *, apart: float) -> list[int]:
    """Return the places that lie at least `apart` from all before them in `wanted`, in ascending order."""
    kept: list[int] = []
    for place in wanted:
        if all(abs(place - other) >= apart for other in kept):
            kept.append(place)
    return sorted(kept)


def short_number(value: float) -> str:
    """Write a tick: 0.05, 2, 600, 20k, 1.5M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if suffix == "k" else limit)
            return f"{scaled:g}{suffix}"
    if value != 0 and abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.0e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.4g}"


def significant(value: float, digits: int = 3) -> str:
    """Write a value with `digits` significant digits, without powers of ten where it can be read."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{float(text):.0f}"
    return text.replace("-", "−")
