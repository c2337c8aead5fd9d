"""Numbers that a training loop hands in: on the host, or still on their device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import Tensor

Value: TypeAlias = float | Tensor


def token_positions(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Token positions of one forward: entries of the first integer tensor, or vectors of the first floating one."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    for tensor in tensors:
        if not tensor.is_floating_point():
            return tensor.numel()
    return tensors[0].numel() // max(1, tensors[0].shape[-1]) if tensors else 0


def split(values: Mapping[str, Value]) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Part tensors on a device, which travel with the moments, from numbers that the host knows.

    A tensor of the host is one of those: to put it among the others on a device, the host would have to wait.
    """
    on_device, on_host = {}, {}
    for name, value in values.items():
        if isinstance(value, Tensor) and value.device.type != "cpu":
            on_device[name] = value
        else:
            on_host[name] = float(value.detach() if isinstance(value, Tensor) else value)
    return on_device, on_host


def not_one_number(value: Any) -> str:
    """Return what `value` is when it is not one number; empty when it is."""
    if isinstance(value, Tensor):
        return "" if value.numel() == 1 else f"a tensor of shape {tuple(value.shape)}"
    try:
        float(value)
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"
    return ""
