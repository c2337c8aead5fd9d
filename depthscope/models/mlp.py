"""Per-token MLPs, the even-numbered sublayers."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig
from depthscope.models.moe import MixtureOfExperts


class SwiGLU(nn.Module):
    """out(silu(gate(x)) * up(x)), without biases (Shazeer, arXiv 2002.05202)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.out(F.silu(self.gate(x)) * self.up(x))
        return output


class GeluMLP(nn.Module):
    """out(gelu(up(x))), without biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.out(F.gelu(self.up(x)))
        return output


def build_mlp(config: DecoderConfig) -> nn.Module:
    """Return the MLP that `config` asks for, or a mixture of experts of that kind."""
    kind = SwiGLU if config.mlp == "swiglu" else GeluMLP

    def mlp() -> nn.Module:
        return kind(config.width, config.hidden_width)

    if config.experts == 1:
        return mlp()
    return MixtureOfExperts(config.width, mlp, experts=config.experts, active=config.active_experts)
