"""Moving parameters away from the values that hide what they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from depthscope.anatomy.wrappers import is_sharded


@contextmanager
def shaken(modules: Iterable[nn.Module], *, seed: int) -> Iterator[None]:
    """Run the body with other values in the modules' own gains, biases, scalars and constant matrices.

    A learned residual scale that starts at 1 looks like a plain sum, and an output projection that starts at
    0 writes nothing; an identity found with such a parameter moved holds for training too. The parameters
    themselves are not written to: others take their place for the time of the body.
    """
    generator = torch.Generator().manual_seed(seed)
    replaced: list[tuple[nn.Module, str, nn.Parameter]] = []
    try:
        for module in modules:
            for name, parameter in list(module._parameters.items()):
                if parameter is not None and _hides(parameter):
                    replaced.append((module, name, parameter))
                    module._parameters[name] = _moved(parameter, generator)
        yield
    finally:
        for module, name, parameter in reversed(replaced):
            module._parameters[name] = parameter


def _hides(parameter: nn.Parameter) -> bool:
    if is_lazy(parameter) or not parameter.is_floating_point():
        return False
    if is_sharded(parameter):  # gathered before it is used, so another in its place would not be seen
        return False
    if parameter.numel() == 0 or parameter.is_meta:
        return False
    return parameter.ndim <= 1 or bool(parameter.detach().amin() == parameter.detach().amax())


def _moved(parameter: nn.Parameter, generator: torch.Generator) -> nn.Parameter:
    value = parameter.detach()
    size = value.float().square().mean().sqrt()
    noise = torch.randn(value.shape, generator=generator).to(value.device, torch.float32)
    moved = value.float() + 0.2 * torch.where(size > 0, size, 1.0) * noise
    return nn.Parameter(moved.to(value.dtype), requires_grad=parameter.requires_grad)
