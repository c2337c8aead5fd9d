"""Sums over depth need more digits than a bfloat16 model computes with."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """Return `x` in float32, or as it is where its dtype is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def in_float32(number: float) -> bool:
    """Whether a number stays one in float32: it is finite there, and 0 only where it was 0."""
    limits = torch.finfo(torch.float32)
    return number == 0 or limits.tiny <= abs(number) <= limits.max
