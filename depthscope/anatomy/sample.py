"""A few rows of a tensor, in fp64: enough to tell which tensors are equal and which sum to which."""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS = 64

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 2e-2}
"""Largest relative error of a sum of a few tensors, by the coarsest dtype among them."""


class Sampler:
    """Takes the same evenly spread rows from every tensor that is shaped like the stream.

    A tensor is so when its last dim is the stream's width and it has as many entries: [batch, time, width]
    and [batch * time, width] both are.
    """

    def __init__(self, like: Tensor) -> None:
        self.width, self.entries = like.shape[-1], like.numel()
        rows = self.entries // self.width
        self.rows = torch.linspace(0, rows - 1, min(rows, _ROWS)).long()
        self.dtypes: set[torch.dtype] = set()

    def fits(self, tensor: Tensor) -> bool:
        return tensor.ndim >= 2 and tensor.shape[-1] == self.width and tensor.numel() == self.entries

    def __call__(self, tensor: Tensor) -> Tensor:
        """Return [rows * width] in fp64 on the CPU."""
        self.dtypes.add(tensor.dtype)
        rows = tensor.detach().reshape(-1, self.width)[self.rows.to(tensor.device)]
        return rows.to("cpu", torch.float64).reshape(-1)


def tolerance_of(dtypes: set[torch.dtype]) -> float:
    """Return the tolerance that the coarsest of the dtypes needs."""
    return max((TOLERANCES.get(dtype, 2e-2) for dtype in dtypes), default=TOLERANCES[torch.float32])


def close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Whether two samples are equal but for rounding."""
    size = float(torch.maximum(one.norm(), other.norm()))
    return float((one - other).norm()) <= tolerance * size
