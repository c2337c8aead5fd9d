"""What is recorded, what is not and why, as text that a person reads and the run carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Report:
    """The state of a recording; `print` it."""

    path: str
    design: str
    found_by: str
    layers: int
    rows: int
    """Optimizer steps handed over for recording."""
    dropped: int
    """Of those, steps lost because the disk or the drain was too slow."""
    streams: Mapping[str, int]
    recorded: tuple[str, ...]
    missing: Mapping[str, str]
    """Quantity, or site, and the reason."""
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        due = ", ".join(f"{name} every {every}" for name, every in self.streams.items())
        lines = [
            f"depthscope records {self.design} ({self.layers} sublayers, {self.found_by}) into {self.path}",
            f"  streams   {due}",
            f"  rows      {self.rows} handed over, {self.dropped} dropped",
            "  recorded  " + _wrap(self.recorded, 12),
        ]
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.missing.items():
            by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            lines += [f"  missing   {reason}:", "            " + _wrap(tuple(names), 12)]
        return "\n".join([*lines, *(f"  note      {note}" for note in self.notes)])


def _wrap(names: tuple[str, ...], indent: int, width: int = 100) -> str:
    lines, line = [], ""
    for name in names:
        if line and len(line) + len(name) + 2 > width - indent:
            lines.append(line)
            line = ""
        line += (", " if line else "") + name
    return (",\n" + " " * indent).join([*lines, line])
