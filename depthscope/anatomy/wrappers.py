"""Wrappers around the module that holds the depth axis."""

from __future__ import annotations

import sys

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def unwrap(model: nn.Module) -> nn.Module:
    """Return the module inside DistributedDataParallel, DataParallel and torch.compile's wrapper.

    Ports and parameter names are relative to what this returns.
    """
    inner: object = model
    while isinstance(inner, nn.Module):
        model = inner
        if isinstance(model, DistributedDataParallel | DataParallel):
            inner = model.module
        else:
            inner = model._orig_mod if is_compiled(model) else None
    return model


def is_compiled(model: nn.Module) -> bool:
    """Whether `model` is what ``torch.compile(module)`` returned."""
    # Not imported for the test: torch._dynamo takes a second, and a compiled module has loaded it already.
    frames = sys.modules.get("torch._dynamo.eval_frame")
    return frames is not None and isinstance(model, frames.OptimizedModule)


def is_compiled_inside(model: nn.Module) -> bool:
    """Whether any part of `model` runs compiled code (``torch.compile(part)`` or ``part.compile()``)."""
    return any(
        is_compiled(module) or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


def is_sharded(value: object) -> bool:
    """Whether `value` is a DTensor."""
    # Not imported for the test: whoever has a DTensor has loaded its module.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def holds_shards(model: nn.Module) -> bool:
    """Whether any parameter of `model` is spread over ranks, by DTensors or by FullyShardedDataParallel."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and any(isinstance(m, fsdp.FullyShardedDataParallel) for m in model.modules()):
        return True
    return any(is_sharded(parameter) for parameter in model.parameters())
