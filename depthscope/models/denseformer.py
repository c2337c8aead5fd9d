"""DenseFormer: after every transformer block, a learned average over depth."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from depthscope.marks import Port
from depthscope.models.config import DecoderConfig
from depthscope.models.option import Design
from depthscope.models.residual import Residual, State, tensors


class DepthAverage(nn.Module):
    """X_0 ... X_m -> sum_i a_i X_i, [batch, time, d]; `weight` is a [m + 1], at the start 1 for X_m and else 0."""

    def __init__(self, sources: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(sources))
        with torch.no_grad():
            self.weight[-1] = 1.0

    def forward(self, *sources: Tensor) -> Tensor:
        average = self.weight[0] * sources[0]
        for weight, source in zip(self.weight[1:], sources[1:], strict=True):
            average = average + weight * source
        return average


class DenseFormer(Residual):
    """PreNorm whose stream is X = sum_{i<=m} a_{i,m} X_i after transformer block m (Pagliardini et al., arXiv 2402.02622, Section 3).

    X_0 is the embedding and X_i what transformer block i gives from its averaged input, before its own average
    `averages.{i-1}`. The weights are static and start as the identity; dilation and period are 1. The state is
    the stream, then X_0, X_1, ...
    """

    name: ClassVar[str] = "denseformer"
    label: ClassVar[str] = "DenseFormer"

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.averages = nn.ModuleList(DepthAverage(block + 2) for block in range(config.layers // 2))

    def begin(self, embedding: Tensor) -> State:
        return (embedding, embedding)

    def read(self, state: State, layer: int) -> Tensor:
        return tensors(state)[0]

    def write(self, state: State, layer: int, output: Tensor) -> State:
        stream, *finished = tensors(state)
        stream = stream + output
        if not ends_transformer_block(layer):
            return (stream, *finished)
        return (self.averages[layer // 2](*finished, stream), *finished, stream)

    def end(self, state: State) -> Tensor:
        return tensors(state)[0]

    def additive(self, layer: int) -> bool:
        return not ends_transformer_block(layer)

    def summed(self, layer: int) -> bool:
        return not ends_transformer_block(layer)

    def made_port(self, layer: int) -> Port | None:
        averaged = layer > 0 and ends_transformer_block(layer - 1)
        return Port(module=f"layers.{layer - 1}.write", side="output", path=(0,)) if averaged else None

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return None if ends_transformer_block(layer) else "state"


def ends_transformer_block(layer: int) -> bool:
    """Return whether sublayer `layer` (from 0) is an MLP."""
    return layer % 2 == 1


DENSEFORMER = Design(name=DenseFormer.name, label=DenseFormer.label, build=DenseFormer, example="denseformer")
