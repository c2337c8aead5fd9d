"""Two loops compared fairly: run in turns, one ratio a pair, the median with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Seconds = Callable[[Callable[[], object]], float]
"""Runs what it is given and returns the seconds that it took, on a clock of its choice."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A median and its distribution-free 95 % interval, by order statistics."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f}, {self.low:.3f} to {self.high:.3f}"


def interval(values: list[float]) -> Interval:
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low = max(0, math.floor(len(ordered) / 2 - reach))
    high = min(len(ordered) - 1, math.ceil(len(ordered) / 2 + reach))
    return Interval(median=statistics.median(ordered), low=ordered[low], high=ordered[high])


def pairs(
    plain: Callable[[], object], other: Callable[[], object], count: int, seconds: Seconds
) -> Iterator[tuple[float, float]]:
    """Yield the seconds of both, `count` times; who goes first changes from pair to pair."""
    for pair in range(count):
        if pair % 2 == 0:
            before = seconds(plain)
            yield before, seconds(other)
        else:
            after = seconds(other)
            yield seconds(plain), after


def ratio(plain: Callable[[], object], other: Callable[[], object], count: int, seconds: Seconds) -> Interval:
    """Return the interval of other / plain over `count` pairs."""
    return interval([after / before for before, after in pairs(plain, other, count, seconds)])
