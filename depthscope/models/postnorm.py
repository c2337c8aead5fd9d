"""PostNorm: the stream itself passes a norm after every sublayer."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from depthscope.marks import Port
from depthscope.models.config import DecoderConfig
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design
from depthscope.models.residual import Residual, State, tensor


class PostNorm(Residual):
    """h = s, s <- Norm(s + F(h)), without a PreNorm and without a final norm (Vaswani et al., arXiv 1706.03762, Section 3.1).

    `norms.{l}` takes s + f and gives the new state.
    """

    name: ClassVar[str] = "postnorm"
    label: ClassVar[str] = "PostNorm"

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.norms = nn.ModuleList(RMSNorm(config.width, config.norm_eps) for _ in range(config.layers))

    def write(self, state: State, layer: int, output: Tensor) -> State:
        normed: Tensor = self.norms[layer](tensor(state) + output)
        return normed

    def prenorm(self, layer: int) -> nn.Module:
        return nn.Identity()

    def postnorm(self) -> nn.Module:
        return nn.Identity()

    def additive(self, layer: int) -> bool:
        return False

    def summed(self, layer: int) -> bool:
        return False

    def state_prenorm_port(self, layer: int) -> Port | None:
        return Port(module=f"residual.norms.{layer}", side="input")

    def made_port(self, layer: int) -> Port | None:
        if layer == 0:
            return Port(module="embedding", side="output")
        return Port(module=f"layers.{layer - 1}.write", side="output")

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return None  # the next read is the sum over its rms: no factor of f_l passes a module


POSTNORM = Design(name=PostNorm.name, label=PostNorm.label, build=PostNorm, example="postnorm")
