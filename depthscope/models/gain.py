"""A learned factor on what a sublayer gives."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Gain(nn.Module):
    """weight * x, with `weight` of one entry or one for each feature."""

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight
