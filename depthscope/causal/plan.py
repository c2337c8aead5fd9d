"""What a sweep measures: a table of interventions over targets and sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from depthscope.causal.block_reset import boundaries, carry_across
from depthscope.causal.depth_sources import DepthSources
from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Intervention
from depthscope.causal.outer_state import cut_outer_extra, cut_outer_read, cut_outer_write
from depthscope.causal.replacing import Mode
from depthscope.causal.sublayers import replace_write
from depthscope.causal.values import Values
from depthscope.marks import DepthAxis, Port

Kind = Literal["sources", "families", "sublayers", "outer", "resets"]
Cell: TypeAlias = Callable[[Values | None], Intervention]
"""What another batch's values at the row's `needs` make of a cell; None unless resampling."""

ZERO_OR_RENORMALISE = (
    "Where a mix feeds only an RMSNorm, zero and renormalise agree up to the norm's eps over the mean square of the read: "
    "the norm takes away the size in which they differ."
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Rows are targets, columns sources; a pair without a cell does not exist."""

    kind: Kind
    mode: Mode
    targets: tuple[int, ...]
    """Numbers of the rows as people count them, from 1."""
    target_names: tuple[str, ...]
    source_names: tuple[str, ...]
    cells: Mapping[tuple[int, int], Cell]
    needs: Mapping[int, tuple[Port, ...]] = field(default_factory=dict)
    """For resampling: by row, the ports whose values on another batch the cells take."""
    note: str = ""
    """What has to be known to read the numbers; shown wherever they are."""

    def row(self, target: int) -> list[int]:
        """Return the columns of a row that have a cell."""
        return [column for column in range(len(self.source_names)) if (target, column) in self.cells]


def source_plan(sources: DepthSources, mode: Mode) -> Plan:
    """Return the cut of each source of each target. A target's only source has no renormalised cut."""
    cells: dict[tuple[int, int], Cell] = {}
    for target in range(len(sources.target_names)):
        columns = sources.readable(target)
        if mode != "renormalise" or len(columns) > 1:
            cells |= {(target, column): _cut(sources, target, (column,), mode) for column in columns}
    return _over_sources("sources", sources, mode, sources.source_names, cells)


def family_plan(sources: DepthSources, mode: Mode) -> Plan:
    """Return the cut of each family of sources (embedding, current block, older) of each target."""
    names = ("embedding", "current block", "older")
    cells: dict[tuple[int, int], Cell] = {}
    for target in range(len(sources.target_names)):
        for name, columns in sources.families(target).items():
            if mode != "renormalise" or len(columns) < len(sources.readable(target)):
                cells[target, names.index(name)] = _cut(sources, target, columns, mode)
    return _over_sources("families", sources, mode, names, cells)


def sublayer_plan(axis: DepthAxis, mode: Mode) -> Plan:
    """Return the knock-out of each sublayer's write."""
    layers = range(len(axis.sublayers))
    return Plan(
        kind="sublayers",
        mode=mode,
        targets=tuple(layer + 1 for layer in layers),
        target_names=tuple(sublayer.name for sublayer in axis.sublayers),
        source_names=("write",),
        cells={(layer, 0): _knocked_out(axis, layer + 1, mode) for layer in layers},
        needs={layer: (axis.sublayers[layer].write,) for layer in layers},
    )


def outer_plan(axis: DepthAxis, width: int, mode: Mode) -> Plan:
    """Return the cut of each block's read, its write, and the features of its state beyond `width`."""
    if not axis.outer:
        raise CausalError(f"{axis.design}: the design has no outer state")
    cells: dict[tuple[int, int], Cell] = {}
    for row, block in enumerate(axis.outer):
        cells[row, 0] = _outer(cut_outer_read, axis, block.index, mode)
        cells[row, 1] = _outer(cut_outer_write, axis, block.index, mode)
        if mode == "zero" and block.width > width:
            cells[row, 2] = _extra(axis, block.index, width)
    return Plan(
        kind="outer",
        mode=mode,
        targets=tuple(block.index for block in axis.outer),
        target_names=tuple(f"block {block.index}" for block in axis.outer),
        source_names=("read", "write", "extra features"),
        cells=cells,
        needs={row: (block.read, block.write) for row, block in enumerate(axis.outer)},
    )


def reset_plan(axis: DepthAxis) -> Plan:
    """Return, for each boundary between residual blocks, its sum carried across."""
    blocks = boundaries(axis)
    if not blocks:
        raise CausalError(f"{axis.design}: the design has no residual blocks whose sum restarts")
    return Plan(
        kind="resets",
        mode="zero",
        targets=blocks,
        target_names=tuple(f"after block {block}" for block in blocks),
        source_names=("reset",),
        cells={(row, 0): _carried(axis, block) for row, block in enumerate(blocks)},
    )


def _over_sources(
    kind: Kind,
    sources: DepthSources,
    mode: Mode,
    names: tuple[str, ...],
    cells: Mapping[tuple[int, int], Cell],
) -> Plan:
    rows = range(len(sources.target_names))
    return Plan(
        kind=kind,
        mode=mode,
        targets=tuple(row + 1 for row in rows),
        target_names=sources.target_names,
        source_names=names,
        cells=cells,
        needs={row: sources.source_ports(row) for row in rows if sources.readable(row)},
        note=ZERO_OR_RENORMALISE
        if "renormalise" in sources.modes and mode in ("zero", "renormalise")
        else "",
    )


def _cut(sources: DepthSources, target: int, columns: tuple[int, ...], mode: Mode) -> Cell:
    return lambda donor: sources.cut(target, columns, mode, donor)


def _knocked_out(axis: DepthAxis, layer: int, mode: Mode) -> Cell:
    return lambda donor: replace_write(axis, layer, mode, donor)


def _outer(build: Callable[..., Intervention], axis: DepthAxis, block: int, mode: Mode) -> Cell:
    return lambda donor: build(axis, block, mode, donor)


def _extra(axis: DepthAxis, block: int, width: int) -> Cell:
    return lambda donor: cut_outer_extra(axis, block, width)


def _carried(axis: DepthAxis, block: int) -> Cell:
    return lambda donor: carry_across(axis, block)
