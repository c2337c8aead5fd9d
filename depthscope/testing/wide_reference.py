"""The definitions about streams and interfaces a second time, token by token in fp64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

from depthscope.marks import DepthAxis, OuterBlock

Means: TypeAlias = Iterator[tuple[str, tuple[int, ...], Tensor]]
"""Quantity, entry, and the values of all tokens whose mean it is."""


def of_streams(axis: DepthAxis, seen: Mapping[str, Tensor]) -> Means:
    """Yield what is known of streams, from ``state l`` [tokens, n k] and ``mixing l`` [..., n, n]."""
    matrices = [seen[f"mixing {each.layer}"] for each in axis.streams if f"mixing {each.layer}" in seen]
    if not axis.streams or len(matrices) < len(axis.streams):
        return
    count = axis.streams[0].streams
    product = torch.eye(count, dtype=torch.float64, device=matrices[0].device)
    for layer in range(len(matrices) - 1, -1, -1):
        mixing = matrices[layer].reshape(-1, count, count)
        product = product @ mixing
        for out in range(count):
            yield (
                "stream_energy",
                (layer, out),
                seen[f"state {layer + 1}"].chunk(count, -1)[out].square().mean(-1),
            )
            for into in range(count):
                yield "stream_mixing", (layer, out, into), mixing[:, out, into]
        for name, axis_of_sums in (("forward", 2), ("backward", 1)):
            sums = product.sum(axis_of_sums).abs()
            yield f"gain_{name}", (layer,), sums.amax(-1)
            yield f"gain_{name}_min", (layer,), sums.amin(-1)
            yield f"gain_{name}_abs", (layer,), product.abs().sum(axis_of_sums).amax(-1)
        if axis.streams[layer].doubly_stochastic:
            off = torch.cat([mixing.sum(1), mixing.sum(2)], dim=-1).sub(1).abs()
            yield "sinkhorn_residue", (layer,), off.amax(-1)


def of_read(block: OuterBlock, model: nn.Module, carry: Tensor) -> Means:
    """Yield the share of the outer state [tokens, D] that the block does not read."""
    read = interface(model.get_submodule(block.read.module), carry[0])
    if read.shape[0] < read.shape[1]:
        kept = carry @ (torch.linalg.pinv(read) @ read)
        yield "outer_unread_share", (block.index - 1,), 1 - (kept.square().sum(-1) / carry.square().sum(-1))


def coupling(axis: DepthAxis, model: nn.Module, outer_width: int) -> Tensor:
    """Return how much of what block b writes is read by block b', [b, b'], NaN but for b' > b."""
    like = next(model.parameters()).detach()
    blocks = range(len(axis.outer))
    found = torch.full((len(axis.outer),) * 2, torch.nan, dtype=torch.float64)
    reads = [
        interface(model.get_submodule(block.read.module), like.new_empty(outer_width)) for block in axis.outer
    ]
    for block in blocks:
        write = interface(model.get_submodule(axis.outer[block].write.module), reads[0][:, 0])
        for later in blocks[block + 1 :]:
            sizes = reads[later].square().sum().sqrt() * write.square().sum().sqrt()
            found[block, later] = (reads[later] @ write).square().sum().sqrt() / sizes
    return found


def interface(module: nn.Module, like: Tensor) -> Tensor:
    """Return the matrix [outputs, inputs] of a linear module, column by column, for inputs like `like`."""
    with torch.no_grad():
        columns = [
            module.forward(unit) for unit in torch.eye(len(like), dtype=like.dtype, device=like.device)
        ]
    return torch.stack(columns, dim=1)
