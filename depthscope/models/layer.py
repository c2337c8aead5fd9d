"""One sublayer with its doors: read, norm, sublayer, write."""

from __future__ import annotations

from torch import nn

from depthscope.models.attention import CausalAttention
from depthscope.models.config import DecoderConfig
from depthscope.models.door import Read, Write
from depthscope.models.mlp import build_mlp
from depthscope.models.residual import Residual, State


class Layer(nn.Module):
    """Sublayer `layer` (from 0): attention where it is even, MLP where it is odd. Takes and returns a state."""

    def __init__(self, config: DecoderConfig, residual: Residual, layer: int) -> None:
        super().__init__()
        self.read = Read(residual, layer)
        self.norm = residual.prenorm(layer)
        self.sublayer: nn.Module = build_mlp(config) if layer % 2 else CausalAttention(config)
        self.write = Write(residual, layer)

    def forward(self, state: State) -> State:
        after: State = self.write(state, self.sublayer(self.norm(self.read(state))))
        return after
