"""Features that depth mixers weigh in parts."""

from __future__ import annotations

from torch import Tensor


def by_head(tensor: Tensor, heads: int) -> Tensor:
    """Return [..., d] as [..., heads, d / heads]; with one head as it is."""
    return tensor if heads == 1 else tensor.reshape(*tensor.shape[:-1], heads, -1)
