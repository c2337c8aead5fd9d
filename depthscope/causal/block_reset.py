"""The restart at a residual block's boundary undone: the sum of the block before is carried across."""

from __future__ import annotations

from torch import Tensor

from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Edit, Intervention
from depthscope.causal.values import Values
from depthscope.marks import DepthAxis, Port


def boundaries(axis: DepthAxis) -> tuple[int, ...]:
    """Return the residual blocks (from 1) after which a sum restarts: all but the last."""
    return tuple(sorted({sublayer.residual_block for sublayer in axis.sublayers} - {0}))[:-1]


def carry_across(axis: DepthAxis, block: int) -> Intervention:
    """Return the intervention that lets the sum of residual block `block` (from 1) run on into the next one.

    With depth mixers the next block's sum starts from b_n instead of from nothing: its first write gets b_n added, and
    b_n stays a source of its own. With an outer state the next block's inner stream starts from its read plus the
    inner stream that `block` ended with.
    """
    known = boundaries(axis)
    if block not in known:
        told = (
            f"boundaries after blocks {', '.join(map(str, known))}"
            if known
            else "no residual blocks whose sum restarts"
        )
        raise CausalError(f"{axis.design}: found block {block}; the design has {told}")
    members = [sublayer for sublayer in axis.sublayers if sublayer.residual_block == block]
    following = next(sublayer for sublayer in axis.sublayers if sublayer.residual_block == block + 1)
    total = members[-1].state
    if total is None:
        raise CausalError(f"{axis.design}: the sum at the end of block {block} is not seen")
    if axis.outer:
        return _added(f"block {block}'s inner stream carried on", axis.outer[block].read, total)
    if not axis.mixers:
        raise CausalError(f"{axis.design}: its blocks are no sums that restart")
    return _added(f"block {block}'s sum carried on", following.write, total)


def _added(name: str, port: Port, carried: Port) -> Intervention:
    def change(value: Tensor, values: Values) -> Tensor:
        return value + values[carried]

    return Intervention(name=name, edits=(Edit(port=port, change=change, needs=(carried,)),))
