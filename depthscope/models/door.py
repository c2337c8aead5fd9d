"""Modules without parameters through which the calls of the residual protocol pass.

A forward hook on a door sees what a design reads and writes, although the design itself is one object that
serves every layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from depthscope.models.residual import Residual, State


class _Door(nn.Module):
    def __init__(self, residual: Residual) -> None:
        super().__init__()
        # In a tuple, so that the design is not registered once more below every layer.
        self._behind = (residual,)

    @property
    def residual(self) -> Residual:
        return self._behind[0]


class Begin(_Door):
    """v_0 [batch, time, d] -> the first state."""

    def forward(self, embedding: Tensor) -> State:
        return self.residual.begin(embedding)


class Read(_Door):
    """State -> h_l [batch, time, d]."""

    def __init__(self, residual: Residual, layer: int) -> None:
        super().__init__(residual)
        self.layer = layer

    def forward(self, state: State) -> Tensor:
        return self.residual.read(state, self.layer)


class Write(_Door):
    """State and the sublayer's output -> a new state."""

    def __init__(self, residual: Residual, layer: int) -> None:
        super().__init__(residual)
        self.layer = layer

    def forward(self, state: State, output: Tensor) -> State:
        return self.residual.write(state, self.layer, output)


class End(_Door):
    """Last state -> the last read [batch, time, d], before the norm in front of the LM head."""

    def forward(self, state: State) -> Tensor:
        return self.residual.end(state)
