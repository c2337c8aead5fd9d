"""The anatomy as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from depthscope.anatomy.children import is_inside
from depthscope.marks import DepthAxis, Port

if TYPE_CHECKING:
    from depthscope.anatomy.anatomy import Anatomy
    from depthscope.anatomy.finding import Check


def table(anatomy: Anatomy) -> str:
    """Return the table that printing an `Anatomy` shows, lines without trailing blanks."""
    lines = [_head(anatomy)]
    chosen = next((candidate for candidate in anatomy.candidates if candidate.chosen), None)
    if chosen is not None:
        lines.append(f"blocks: {chosen}")
        others = [
            candidate
            for candidate in anatomy.candidates
            if not candidate.chosen and not is_inside(candidate.path, chosen.path)
        ]
        lines += [f"  not taken: {candidate}" for candidate in others]
    elif anatomy.blocks:
        few = len(anatomy.blocks) <= 4
        named = ", ".join(anatomy.blocks) if few else f"{anatomy.blocks[0]} ... {anatomy.blocks[-1]}"
        lines.append(f"blocks: {named} ({len(anatomy.blocks)})")
    lines.append("")
    if anatomy.axis is not None:
        lines += _columns(_rows(anatomy.axis, anatomy.checks))
        lines += [
            "",
            f"embedding   {_port(anatomy.axis.embedding)}",
            f"final read  {_port(anatomy.axis.final_read)}",
        ]
    elif anatomy.settled:
        lines.append("no sublayer can be recorded")
    else:
        rows = [("block", "kind", "module", "checks")]
        rows += [(str(g.block), g.kind, g.module, "not verified yet") for g in anatomy.guess]
        lines += _columns(rows)
        lines += ["", "a guess by structure; pass example=, or the first training forward settles it"]
    lines += [f"note: {note}" for note in anatomy.notes]
    return "\n".join(line.rstrip() for line in lines)


def _head(anatomy: Anatomy) -> str:
    if anatomy.axis is None:
        state = "no depth axis" if anatomy.settled else "not verified yet"
        return f"{anatomy.model}: {state} ({anatomy.found_by})"
    axis = anatomy.axis
    return f"{anatomy.model}: {len(axis.sublayers)} sublayers, design {axis.design} ({anatomy.found_by})"


def _rows(axis: DepthAxis, checks: Sequence[Check]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("layer", "block", "kind", "module", "read", "write", "state", "checks")]
    for sublayer in axis.sublayers:
        ours = [
            check
            for check in checks
            if sublayer.name.startswith(f"{check.block}.") or sublayer.name == check.block
        ]
        told = ", ".join(f"{check.value:.0e} {'ok' if check.passed else 'FAILED'}" for check in ours)
        rows.append(
            (
                str(sublayer.index),
                str(sublayer.transformer_block),
                sublayer.kind,
                sublayer.name,
                _port(sublayer.read),
                _port(sublayer.write),
                _port(sublayer.state),
                told or "-",
            )
        )
    return rows


def _port(port: Port | None) -> str:
    return "-" if port is None else str(port)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
