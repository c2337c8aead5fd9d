"""Numbers that a training loop hands in: on the host, or still on their device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

Value: TypeAlias = float | Tensor


def token_positions(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Token positions of one forward: entries of the first integer tensor, or vectors of the first floating one.

    Arguments may be nested (a batch as a dict); single numbers tell nothing. 0 where no tensor tells.
    """
    leaves = tree_leaves((args, dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.dim()]
    for tensor in tensors:
        if not tensor.is_floating_point():
            return tensor.numel()
    return tensors[0].numel() // max(1, tensors[0].shape[-1]) if tensors else 0


def checked_count(tokens: Any) -> int | None:
    """Return a number of tokens as the loop gave it; None when it is none: negative, a fraction, a truth value, text."""
    try:
        count = int(tokens)
        return count if not isinstance(tokens, bool) and count == tokens and count >= 0 else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


_PART = 2**20
_PARTS = f" / {_PART}"


def split(values: Mapping[str, Value], device: torch.device) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Part tensors, which travel with the moments on `device` in fp32, from numbers that the host knows.

    A tensor of the host is one of those, unless the moments are on the host too: to put it among others on a device,
    the host would have to wait. A whole number travels in two parts, since fp32 counts to 16 million only: `joined`
    puts them together.
    """
    on_device: dict[str, Tensor] = {}
    on_host: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(value, Tensor):
            on_host[name] = float(value)
        elif value.device.type == "cpu" != device.type:
            on_host[name] = float(value.detach())
        elif value.dtype in (torch.int64, torch.int32):
            on_device |= {name: value % _PART, name + _PARTS: value // _PART}
        else:
            on_device[name] = value
    return on_device, on_host


def joined(values: Mapping[str, float]) -> dict[str, float]:
    """Put together what `split` has taken apart."""
    parts = {name: value for name, value in values.items() if name.endswith(_PARTS)}
    whole = {name: value for name, value in values.items() if name not in parts}
    for name, above in parts.items():
        whole[name.removesuffix(_PARTS)] += _PART * above
    return whole


def not_one_number(value: Any) -> str:
    """Return what `value` is when it is not one number; empty when it is."""
    if isinstance(value, Tensor):
        return "" if value.numel() == 1 else f"a tensor of shape {tuple(value.shape)}"
    try:
        float(value)
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"
    return ""
