"""Designs that change what a sublayer gives before it is added to the stream."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from depthscope.marks import Port
from depthscope.models.config import DecoderConfig
from depthscope.models.residual import Residual, State, tensor


class BranchResidual(Residual):
    """h = s, s <- s + f with f = branch_l(o): a module for each sublayer, between its output and the sum.

    `branches.{l}` gives f_l [batch, time, d], the write.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.branches = nn.ModuleList(self.branch(layer) for layer in range(config.layers))

    @abstractmethod
    def branch(self, layer: int) -> nn.Module:
        """Return a new module for sublayer `layer` (from 0)."""

    def write(self, state: State, layer: int, output: Tensor) -> State:
        written: Tensor = self.branches[layer](output)
        return tensor(state) + written

    def write_port(self, layer: int) -> Port:
        return Port(module=f"residual.branches.{layer}", side="output")
