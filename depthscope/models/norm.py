"""Root mean square normalisation whose scale can be recorded and replayed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from depthscope.marks import coefficient
from depthscope.models.precision import at_least_float32


def rms_scale(x: Tensor, eps: float) -> Tensor:
    """Return 1 / rms of each vector of `x`, shape [..., 1], in float32 or better whatever the dtype of `x`."""
    return torch.rsqrt(at_least_float32(x).square().mean(-1, keepdim=True) + eps)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich, arXiv 1910.07467).

    The scale is a `coefficient`: replayed, the norm is linear in `x`.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return (x * coefficient(rms_scale, x, self.eps)).to(x.dtype) * self.weight
