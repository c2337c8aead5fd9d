"""Reductions need more digits than autocast leaves."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """Autocast off: it would run inner products in bf16."""
    device = tensor.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):  # where meta knows no autocast
        return nullcontext()
    return torch.autocast(device, enabled=False)
