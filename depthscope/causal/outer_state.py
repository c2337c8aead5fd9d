"""Parts of a wide outer state taken away: a block's write, its read, or the features beyond the model's width."""

from __future__ import annotations

import torch
from torch import Tensor

from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Edit, Intervention
from depthscope.causal.replacing import Mode
from depthscope.causal.sublayers import replaced_at
from depthscope.causal.values import Values
from depthscope.marks import DepthAxis, OuterBlock


def cut_outer_write(
    axis: DepthAxis, block: int, mode: Mode = "zero", donor: Values | None = None
) -> Intervention:
    """Return the intervention that replaces W_b Phi_b, what block `block` (from 1) writes, for every later read."""
    found = outer_block(axis, block)
    return replaced_at(f"without block {block}'s write", found.write, mode, donor)


def cut_outer_read(
    axis: DepthAxis, block: int, mode: Mode = "zero", donor: Values | None = None
) -> Intervention:
    """Return the intervention that replaces R_b h_{b-1}, what block `block` (from 1) starts from."""
    found = outer_block(axis, block)
    return replaced_at(f"without block {block}'s read", found.read, mode, donor)


def cut_outer_extra(axis: DepthAxis, block: int, width: int) -> Intervention:
    """Return the intervention after which h_b, the state after block `block` (from 1), has only `width` features.

    `width` is the model's d, which a truncation alone would keep; the others are set to 0, for the carry and for
    every later read. It is after the boundary norm: nothing grows in their place.
    """
    found = outer_block(axis, block)

    def change(state: Tensor, values: Values) -> Tensor:
        kept = state[..., :width]
        return torch.cat((kept, torch.zeros_like(state[..., width:])), dim=-1)

    return Intervention(
        name=f"without the features of block {block}'s state beyond {width}",
        edits=(Edit(port=found.state, change=change),),
    )


def outer_block(axis: DepthAxis, block: int) -> OuterBlock:
    """Return block `block` of the outer state, from 1; CausalError where there is none."""
    if not axis.outer:
        raise CausalError(f"{axis.design}: the design has no outer state")
    if not 1 <= block <= len(axis.outer):
        raise CausalError(f"block {block}: the outer state has blocks 1 to {len(axis.outer)}")
    return axis.outer[block - 1]
