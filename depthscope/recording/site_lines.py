"""The report per site as lines: places with the same outcome stand together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

Outcome: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""What a place gave, and of what it did not give each name with the reason."""


@dataclass(frozen=True, kw_only=True)
class SiteLine:
    """Places of one kind with the same outcome."""

    site: str
    """Kind of site: write, read, state, mixer, ..."""
    where: str
    """Which places; empty where there is one only."""
    recorded: tuple[str, ...]
    """Quantities that have values there."""
    missing: tuple[tuple[str, tuple[str, ...]], ...]
    """Each reason, and the quantities that are not there for it."""

    def to_json(self) -> dict[str, Any]:
        """Return what the run carries."""
        return {
            "site": self.site,
            "where": self.where,
            "recorded": list(self.recorded),
            "missing": {reason: list(names) for reason, names in self.missing},
        }


def grouped(site: str, axis: str, names: Sequence[str], outcomes: Sequence[Outcome]) -> list[SiteLine]:
    """Return one line for each outcome, in the order in which they first occur; `outcomes` are by position."""
    positions: dict[Outcome, list[int]] = {}
    for position, outcome in enumerate(outcomes):
        positions.setdefault(outcome, []).append(position)
    lines = []
    for (recorded, lacking), held in positions.items():
        reasons: dict[str, list[str]] = {}
        for name, reason in lacking:
            reasons.setdefault(reason, []).append(name)
        missing = tuple((reason, tuple(members)) for reason, members in reasons.items())
        lines.append(SiteLine(site=site, where=where(axis, held, names), recorded=recorded, missing=missing))
    return lines


def where(axis: str, positions: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return the words for places on an axis, from 0: ``layers 1-4, 7``, ``layer 3 (layers.2)``."""
    if not axis:
        return ""
    if len(positions) == 1:
        position = positions[0]
        name = f" ({names[position]})" if position < len(names) else ""
        return f"{axis} {position + 1}{name}"
    steps = {after - before for before, after in pairwise(positions)}
    if len(positions) > 2 and steps == {2}:
        return f"{axis}s {positions[0] + 1}, {positions[1] + 1}, ... {positions[-1] + 1}"
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and position == ranges[-1][-1] + 1:
            ranges[-1].append(position)
        else:
            ranges.append([position])
    return f"{axis}s " + ", ".join(
        f"{part[0] + 1}-{part[-1] + 1}" if len(part) > 1 else str(part[0] + 1) for part in ranges
    )
