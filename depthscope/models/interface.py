"""The linear maps between a wide outer state and the width of a block, with their stabilising gate."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Truncation(nn.Module):
    """Pi x: the features both widths share; the rest is cut, or filled up with zeros. Owns no parameters."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        # A negative padding cuts: the same call serves both directions.
        return F.pad(x, (0, self.outputs - x.shape[-1]))


class Interface(nn.Module):
    """(1 - sigmoid(alpha)) Pi x + sigmoid(alpha) M x, from width `inputs` to width `outputs`.

    Pi is `truncation`. M (`weight`, [outputs,
    inputs]) starts with standard deviation 1 / sqrt(inputs); `gate` is alpha, [1] (`fully_shard` takes no
    scalars). `gate` at the start is given as sigmoid(alpha): 0 is exactly Pi, 1 exactly M, None leaves Pi and the gate
    out.
    """

    def __init__(self, inputs: int, outputs: int, *, gate: float | None, frozen: bool = False) -> None:
        super().__init__()
        self.truncation = Truncation(outputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5, requires_grad=not frozen)
        self.gate = None if gate is None else nn.Parameter(torch.tensor([logit(gate)]))

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(device_type=x.device.type, enabled=False):
            mapped = F.linear(x, self.weight)
            if self.gate is None:
                return mapped
            share = torch.sigmoid(self.gate)
            kept: Tensor = (1 - share) * self.truncation(x)
            return kept + share * mapped


def logit(share: float) -> float:
    """Return alpha with sigmoid(alpha) = share; at 0 and 1 a finite alpha whose sigmoid is exactly that."""
    if not 0 <= share <= 1:
        raise ValueError(
            f"gate={share:g}: expected a share from 0 to 1, or none for an interface without a gate"
        )
    if share in (0, 1):
        return math.copysign(1e4, share - 0.5)
    return math.log(share / (1 - share))
