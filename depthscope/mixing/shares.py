"""From replays of a residual network to what each origin contributes to each read, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from depthscope.mixing.network import ResidualNetwork

Tape = AbstractContextManager[object]
Reads = Sequence[Tensor | None]


@dataclass(frozen=True, kw_only=True)
class TargetShares:
    """One read h_l, and what it is made of: the origins that it can hold, in order, and the constant last."""

    target: int
    """From 0; the last is the final read."""
    read: Tensor
    """h_l, [batch, time, d]."""
    share: Tensor
    """<c_i, h_l> / ||h_l||^2, [origins, tokens]."""
    coefficient: Tensor
    """<c_i, v_i> / ||v_i||^2, [origins, tokens]."""
    parallel: Tensor
    """1 where c_i is parallel to v_i, else 0; [origins, tokens]."""
    gap: Tensor
    """What two replays, each with half of the origins, leave unexplained of h_l and of its shares; [batch, time, d]."""


def shares_by_pullback(
    network: ResidualNetwork, tape: Tape, nothing: Reads
) -> list[tuple[Tensor, Tensor, Tensor] | None]:
    """Return share, coefficient and parallel of every read by vector-Jacobian products of one frozen replay.

    With J_i the frozen map from v_i to h_l, c_i = J_i v_i, and g_i = J_i^T h_l comes for all origins at once:
    <c_i, h_l> = <v_i, g_i>; c_i is a multiple of v_i, for any v_i, exactly where g_i is one of h_l, the same.
    `nothing` are the reads of a replay whose origins, and lookups, all give zero: the constants. `tape` replays.

    Raises:
        RecomputedError: the model checkpoints activations also in evaluation mode.
    """
    leaves = [value.clone().requires_grad_() for value in network.values]
    with torch.enable_grad():
        reads = network.run(leaves, tape, lookups=False)
    looked_up = network.run([torch.zeros_like(value) for value in network.values], tape)
    with network.once_only():
        return [
            _pulled_back(network, target, leaves, reads[target], looked_up[target], nothing[target])
            for target in range(len(reads))
        ]


def _pulled_back(
    network: ResidualNetwork,
    target: int,
    leaves: Sequence[Tensor],
    read: Tensor | None,
    looked_up: Tensor | None,
    constant: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor] | None:
    h = network.reads[target]
    if read is None or h is None or looked_up is None or constant is None:
        return None
    reached = [leaves[origin] for origin in network.places.reach(target)]
    pulled: Sequence[Tensor | None] = [None] * len(reached)
    if read.requires_grad:
        pulled = torch.autograd.grad(read, reached, h, retain_graph=True, allow_unused=True)
    size = _dot(h, h)
    shares, factors, parallels = [], [], []
    for leaf, gradient in zip(reached, pulled, strict=True):
        value = leaf.detach()
        gradient = torch.zeros_like(value) if gradient is None else gradient
        shares.append(_dot(value, gradient) / size)
        factor, parallel = _factor(gradient, h, network.low_precision)
        factors.append(factor)
        parallels.append(parallel)
    beside = looked_up - constant
    factor, parallel = _factor(beside, leaves[0].detach(), network.low_precision)
    shares[0], factors[0] = shares[0] + _dot(beside, h) / size, factors[0] + factor
    parallels[0] = parallels[0] * parallel
    return _with_constant(shares, factors, parallels, _dot(constant, h) / size)


def shares_by_replay(
    network: ResidualNetwork, tape: Tape, nothing: Reads
) -> list[tuple[Tensor, Tensor, Tensor] | None]:
    """Return the same, one replay for each origin in which all others give zero: slow, and the reference.

    It needs no gradients, so checkpointing does not matter to it.
    """
    zeros = [torch.zeros_like(value) for value in network.values]
    columns: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in network.reads]
    for origin, value in enumerate(network.values):
        alone = [*zeros[:origin], value, *zeros[origin + 1 :]]
        reads = network.run(alone, tape, lookups=origin == 0)
        for target, (read, constant, h) in enumerate(zip(reads, nothing, network.reads, strict=True)):
            if read is None or constant is None or h is None or origin not in network.places.reach(target):
                continue
            part = read - constant
            factor, parallel = _factor(part, value, network.low_precision)
            columns[target].append((_dot(part, h) / _dot(h, h), factor, parallel))
    rows: list[tuple[Tensor, Tensor, Tensor] | None] = []
    for held, constant, h in zip(columns, nothing, network.reads, strict=True):
        if constant is None or h is None:
            rows.append(None)
            continue
        shares, coefficients, parallels = (list(parts) for parts in zip(*held, strict=True))
        rows.append(_with_constant(shares, coefficients, parallels, _dot(constant, h) / _dot(h, h)))
    return rows


def _with_constant(
    shares: list[Tensor], coefficients: list[Tensor], parallels: list[Tensor], constant: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Add the constant, which is no multiple of any origin."""
    return (
        torch.stack([*shares, constant]),
        torch.stack([*coefficients, torch.zeros_like(constant)]),
        torch.stack([*parallels, torch.zeros_like(constant)]),
    )


def _factor(one: Tensor, other: Tensor, low_precision: bool) -> tuple[Tensor, Tensor]:
    """Return the number m of each token with `one` = m `other`, and 1 where that is so, both [tokens]."""
    if one.shape != other.shape:
        nowhere = _dot(one, one) * 0
        return nowhere, nowhere
    factor = _dot(one, other) / _dot(other, other)
    rest = _rows(one) - factor.unsqueeze(-1) * _rows(other)
    relative, absolute = (2e-2, 1e-2) if low_precision else (1e-4, 1e-6)
    allowed = relative * _length(_rows(one)) + absolute * _length(_rows(other))
    return factor, (_length(rest) <= allowed).to(factor.dtype)


def _rows(x: Tensor) -> Tensor:
    """Return the tokens' vectors [tokens, d] in float32 or better."""
    return x.detach().reshape(-1, x.shape[-1]).to(torch.promote_types(x.dtype, torch.float32))


def _dot(one: Tensor, other: Tensor) -> Tensor:
    products: Tensor = torch.linalg.vecdot(_rows(one), _rows(other))
    return products


def _length(rows: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return lengths
