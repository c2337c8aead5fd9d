"""Highway: a gate that shares the stream between what was there and what is new."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from depthscope.marks import Port, coefficient
from depthscope.models.config import DecoderConfig
from depthscope.models.option import Design, Option, typed
from depthscope.models.precision import at_least_float32, in_float32
from depthscope.models.residual import Residual, State, tensor


def transform_gate(stream: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return g = sigmoid(w . s + b) of each token, shape [..., 1], in float32 or better."""
    logit = (at_least_float32(stream) * weight).sum(-1, keepdim=True) + bias
    return torch.sigmoid(at_least_float32(logit))


class HighwayGate(nn.Module):
    """Stream s and output o -> (1 - g) s and g o, both [batch, time, d]; `weight` is w [d], `bias` is b [1]."""

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.tensor([bias]))

    def forward(self, stream: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
        gate = coefficient(transform_gate, stream, self.weight, self.bias)
        return ((1 - gate) * stream).to(stream.dtype), (gate * output).to(stream.dtype)


class Highway(Residual):
    """h = s, s <- (1 - g) s + g F(h), g = sigmoid(w . s + b) (Srivastava et al., arXiv 1505.00387, Eqs. 2-3 with C = 1 - T).

    The paper's gate has an entry for each feature; taken here: one gate a token, so that what each sublayer
    wrote stays parallel to itself. b starts at -1 (`bias`), one of the paper's values, w at 0; `gates.{l}` gives
    the carried stream and the write g o.
    """

    name: ClassVar[str] = "highway"
    label: ClassVar[str] = "Highway"

    def __init__(self, config: DecoderConfig, *, bias: float = -1.0) -> None:
        super().__init__(config)
        if not in_float32(bias):
            raise ValueError(f"bias={bias:g}: expected a finite number, e.g. bias=-1")
        self.bias = bias
        self.gates = nn.ModuleList(HighwayGate(config.width, bias) for _ in range(config.layers))

    @property
    def design(self) -> str:
        return typed(self.name, bias=self.bias)

    def write(self, state: State, layer: int, output: Tensor) -> State:
        carried, written = self.gates[layer](tensor(state), output)
        summed: Tensor = carried + written
        return summed

    def additive(self, layer: int) -> bool:
        return False  # the read is carried by 1 - g, not as it was

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return None

    def made_port(self, layer: int) -> Port | None:
        if layer == 0:
            return Port(module="embedding", side="output")
        return Port(module=f"layers.{layer - 1}.write", side="output")

    def write_port(self, layer: int) -> Port:
        return Port(module=f"residual.gates.{layer}", side="output", path=(1,))


HIGHWAY = Design(
    name=Highway.name,
    label=Highway.label,
    build=Highway,
    options={"bias": Option(argument="bias", parse=float, example="bias=-1")},
    example="highway:bias=-1",
)
