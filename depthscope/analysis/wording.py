"""How findings say numbers and places: two or three significant digits, names of the depth axis in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

SMALL = 0.05
"""Relative change up to which a number stays where it is."""


def significant(value: float, digits: int = 2) -> str:
    """Write `value` with `digits` significant digits: 1.6, 36, 0.44, 1200; powers of ten only far from 1."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if not -4 <= power < 6:
        return f"{mantissa}e{power}"
    decimals = digits - 1 - power
    return f"{round(value, decimals):.{max(decimals, 0)}f}"


def times(ratio: float) -> str:
    """Write a ratio: ``1.6×``."""
    return f"{significant(ratio)}×"


def span(low: float, high: float) -> str:
    """Write a range: ``1.9–2.5``, or one number where both ends read the same."""
    first, last = significant(low), significant(high)
    return first if first == last else f"{first}–{last}"


def course(verb: str, first: float, last: float) -> str:
    """Write a change, ``falls from 0.46 to 0.14``, or ``stays near 0.14`` where it is small or both read the same."""
    start, end = significant(first), significant(last)
    if start == end or abs(last - first) < SMALL * abs(first):
        return f"stays near {end}"
    return f"{verb} from {start} to {end}"


def percent(share: float) -> str:
    """Write a share: 0.4123 is ``41 %``, 0.01 is ``1 %``, 0.0123 is ``1.2 %``."""
    text = significant(100 * share)
    return f"{text.removesuffix('.0')} %"


def target_words(name: str, index: int) -> str:
    """Name target `index` (counted from 1): ``sublayer 14``, or ``the final read`` for the target `output`."""
    return "the final read" if name == "output" else f"sublayer {index}"


def source_words(name: str) -> str:
    """Name a source: ``the embedding``, else its own label (``block 2``, ``sublayer 7``)."""
    return "the embedding" if name == "embedding" else name


def records_words(count: int) -> str:
    """Name the records of a mean: ``the last 3 records``, ``the last record``."""
    return "the last record" if count == 1 else f"the last {count} records"


def layers_words(layers: Sequence[int]) -> str:
    """Name layers counted from 1: ``sublayer 3``, ``sublayers 3, 4 and 9``, ``24 sublayers``."""
    if len(layers) == 1:
        return f"sublayer {layers[0]}"
    if len(layers) > 4:
        return f"{len(layers)} sublayers"
    return f"sublayers {', '.join(map(str, layers[:-1]))} and {layers[-1]}"
