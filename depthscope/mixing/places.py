"""Where the origins of a read and the reads themselves pass in a model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from depthscope.anatomy import Anatomy, holds_shards
from depthscope.marks import DepthAxis, Port

NO_EMBEDDING = "no module shows the embedding's output, the first origin"
SHARDED = (
    "the parameters are sharded over ranks: replaying would gather them once more for every target; measure the "
    "unsharded model with depthscope.measure_mixing"
)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Ports of one model."""

    origins: tuple[Port, ...]
    """v_0, the embedding's output, then o_l of each sublayer."""
    targets: tuple[Port | None, ...]
    """h_l of each sublayer, then the last read; None where no module shows it."""

    def reach(self, target: int) -> range:
        """Return the origins that a target (both from 0) can hold: the embedding and the sublayers before it."""
        return range(target + 1)


def places_of(axis: DepthAxis) -> Places:
    """Return the places of an axis whose embedding is seen."""
    assert axis.embedding is not None
    outputs = (sublayer.write if sublayer.output is None else sublayer.output for sublayer in axis.sublayers)
    return Places(
        origins=(axis.embedding, *outputs),
        targets=(*(sublayer.read for sublayer in axis.sublayers), axis.final_read),
    )


def no_replay_because(anatomy: Anatomy, model: nn.Module) -> str:
    """Return why the residual network of `model` (unwrapped) cannot be replayed; empty where it can be tried."""
    axis = anatomy.axis
    if axis is None:
        return f"no depth axis was found{': ' if anatomy.notes else ''}{'; '.join(anatomy.notes)}"
    if axis.embedding is None:
        return NO_EMBEDDING
    left_out = len(anatomy.blocks) - len({sublayer.transformer_block for sublayer in axis.sublayers})
    if anatomy.blocks and left_out:
        return (
            f"{left_out} of {len(anatomy.blocks)} transformer blocks are not on the depth axis, so what they write would "
            "be counted to others"
        )
    return SHARDED if holds_shards(model) else ""
