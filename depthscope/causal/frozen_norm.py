"""A norm with its scale held at what it was: linear, so that a read's parts can be sent through it one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from depthscope.causal.error import CausalError

TOLERANCE = 1e-4
"""Largest part of a norm's output that the frozen form may leave unexplained."""


@dataclass(frozen=True)
class FrozenNorm:
    """x -> gain * (x - its mean over features, if centred) * scale, plus the bias in `constant`."""

    gain: Tensor
    centred: bool
    scale: Tensor
    """One a token, [batch, time, 1]."""
    constant: Tensor

    def __call__(self, part: Tensor) -> Tensor:
        """Return what a part [batch, time, d] of the norm's input adds to its output."""
        return _centred(part, self.centred) * self.gain * self.scale


def freeze(norm: nn.Module, x: Tensor, name: str) -> FrozenNorm:
    """Return the norm of `x` [batch, time, d] with its scale frozen: an RMSNorm, a LayerNorm or an identity.

    Which it is, and whether its gain is the weight or 1 + weight, is found by trying: the parts have to sum to what
    the module gives.

    Raises:
        CausalError: it is none of them.
    """
    with torch.no_grad():
        y = norm(x)
        held = dict(norm.named_parameters())
        constant = held.get("bias", torch.zeros_like(x[..., :1]))
        target = y - constant
        for gain in _gains(held.get("weight"), x):
            for centred in (False, True):
                base = _centred(x, centred) * gain
                scale = (target * base).sum(-1, keepdim=True) / base.square().sum(-1, keepdim=True).clamp_min(
                    1e-30
                )
                if float((target - base * scale).norm()) <= TOLERANCE * float(target.norm()):
                    return FrozenNorm(gain, centred, scale, constant)
    raise CausalError(
        f"{name} ({type(norm).__name__}) is neither an RMSNorm nor a LayerNorm, so no part can pass it alone"
    )


def _gains(weight: Tensor | None, x: Tensor) -> Iterator[Tensor]:
    if weight is None:
        yield x.new_ones(x.shape[-1])
    else:
        yield from (weight, 1 + weight)


def _centred(x: Tensor, centred: bool) -> Tensor:
    return x - x.mean(-1, keepdim=True) if centred else x
