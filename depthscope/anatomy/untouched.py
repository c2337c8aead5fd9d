"""Running a model once more without leaving a trace in it."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.anatomy.wrappers import is_compiled_inside

_OF_TORCH = frozenset(nn.Module().__dict__)


@contextmanager
def untouched(model: nn.Module) -> Iterator[dict[nn.Module, bool]]:
    """Run the body in eval mode and without gradients; put everything back afterwards.

    Put back bitwise, also when the body raises: the random states of torch (CPU, CUDA), Python and NumPy;
    every module's own training flag; buffers; attributes that a forward sets on a module (counters, caches).
    Yields the training flags as they were. Parts under torch.compile run eagerly, so that hooks on them fire.
    """
    flags = {module: module.training for module in model.modules()}
    buffers = [
        (module, name, buffer, None if buffer is None else buffer.detach().clone())
        for module in flags
        for name, buffer in module._buffers.items()
    ]
    attributes = [(module, *_own_attributes(module)) for module in flags]
    with _random_states_kept(), torch.no_grad(), _no_cast_cached(), _eager(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # The flag itself: a train() of the user's may do more, such as merging weights.
            for module in flags:
                module.training = False
            yield flags
        finally:
            for module, training in flags.items():
                module.training = training
            for module, name, buffer, saved in buffers:
                _restore_buffer(module, name, buffer, saved)
            for module, values, contents in attributes:
                _restore_attributes(module, values, contents)


@contextmanager
def flags_set(flags: dict[nn.Module, bool]) -> Iterator[None]:
    """Run the body with the given training flags, and put back what they were."""
    before = {module: module.training for module in flags}
    try:
        for module, training in flags.items():
            module.training = training
        yield
    finally:
        for module, training in before.items():
            module.training = training


@contextmanager
def _random_states_kept() -> Iterator[None]:
    cpu, python = torch.get_rng_state(), random.getstate()
    initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if initialized else None
    numpy = sys.modules.get("numpy")
    numpy_state = None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        random.setstate(python)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


@contextmanager
def _no_cast_cached() -> Iterator[None]:
    """Keep autocast from caching a parameter's cast made without gradients: training would then reuse it."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


def _eager(model: nn.Module) -> Any:
    return torch.compiler.set_stance("force_eager") if is_compiled_inside(model) else nullcontext()


def _restore_buffer(module: nn.Module, name: str, buffer: Tensor | None, saved: Tensor | None) -> None:
    if module._buffers.get(name) is not buffer:
        module._buffers[name] = buffer
    if buffer is None or saved is None:
        return
    if buffer.device.type != "cpu" and buffer.is_contiguous():
        # Whether it changed would have to be waited for. Written through `data`, it counts as no change: a backward
        # that is under way may hold it.
        buffer.data.copy_(saved)
    elif not _same_bits(buffer, saved):
        buffer.detach().copy_(saved)


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.layout != torch.strided:
        return False
    first, second = (tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other))
    return torch.equal(first, second)


def _own_attributes(module: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes that are not torch's own, and copies of those that can be changed in place."""
    values = {name: value for name, value in module.__dict__.items() if name not in _OF_TORCH}
    return values, {n: value.copy() for n, value in values.items() if type(value) in (list, dict, set)}


def _restore_attributes(module: nn.Module, values: dict[str, Any], contents: dict[str, Any]) -> None:
    held = module.__dict__
    for name in [name for name in held if name not in values and name not in _OF_TORCH]:
        del held[name]
    held.update(values)
    for name, content in contents.items():
        value = values[name]
        if isinstance(value, list):
            value[:] = content
        else:
            value.clear()
            value.update(content)
