"""What is recorded, what is not and why, as text that a person reads and the run carries."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from depthscope.recording.site_lines import SiteLine

_WIDTH = 110


@dataclass(frozen=True, kw_only=True)
class Report:
    """The state of a recording; `print` it."""

    path: str
    design: str
    found_by: str
    layers: int
    rows: int
    """Optimizer steps handed over for recording."""
    dropped: int = 0
    """Of those, steps lost because the disk or the drain was too slow."""
    streams: Mapping[str, int]
    recorded: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Quantity, or site, and the reason."""
    sites: tuple[SiteLine, ...] = ()
    """What every site gave, places with the same outcome in one line."""
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
        lines += _site_table(self.sites)
        return "\n".join([*lines, *(f"  note      {note}" for note in self.notes)])


def _site_table(sites: Sequence[SiteLine]) -> list[str]:
    """Return a block a kind of site: places, then what they gave, then what not and why."""
    lines, last = [], ""
    for line in sites:
        if line.site != last and line.where:
            lines.append(f"    {line.site}")
        last = line.site
        head = f"      {line.where}: " if line.where else f"    {line.site}: "
        lines.append(head + _wrap(line.recorded or ("nothing",), len(head)))
        for reason, names in line.missing:
            words = "all of it" if not line.recorded and len(line.missing) == 1 else ", ".join(names)
            lines += textwrap.wrap(
                f"not {words}: {reason}", _WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 12
            )
    return ["  by site", *lines] if lines else []


def _wrap(names: tuple[str, ...], indent: int, width: int = 100) -> str:
    lines, line = [], ""
    for name in names:
        if line and len(line) + len(name) + 2 > width - indent:
            lines.append(line)
            line = ""
        line += (", " if line else "") + name
    return (",\n" + " " * indent).join([*lines, line])
