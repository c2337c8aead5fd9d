"""LayerNorm scaling: what a deep sublayer reads is made smaller."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design
from depthscope.models.residual import Residual


class ScaledRMSNorm(RMSNorm):
    """RMSNorm times a fixed `scale`."""

    def __init__(self, width: int, eps: float, scale: float) -> None:
        super().__init__(width, eps)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


class LNS(Residual):
    """h = s, s <- s + F(Norm(h) / sqrt(m)), m the transformer block from 1 (Sun et al., "The Curse of Depth", arXiv 2502.05795).

    Both sublayers of a transformer block have its factor.
    """

    name: ClassVar[str] = "lns"
    label: ClassVar[str] = "LNS"

    def prenorm(self, layer: int) -> nn.Module:
        return ScaledRMSNorm(self.config.width, self.config.norm_eps, (layer // 2 + 1) ** -0.5)


LAYER_NORM_SCALING = Design(name=LNS.name, label=LNS.label, build=LNS, example="lns")
