"""The parts of a block: which modules it calls itself, and what can be said of them by looking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from depthscope.anatomy.words import Kind

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)
_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _NormBase)


def join(*parts: str) -> str:
    """Join module paths; the root's path is empty."""
    return ".".join(part for part in parts if part)


def is_inside(path: str, parent: str) -> bool:
    """Whether `path` is `parent` or below it."""
    return not parent or path == parent or path.startswith(f"{parent}.")


def direct_children(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield the children that a module calls; lists and dicts of modules are never called, so look inside."""
    for name, child in module.named_children():
        if isinstance(child, _CONTAINERS):
            yield from direct_children(child, join(path, name))
        else:
            yield join(path, name), child


def is_norm(module: nn.Module) -> bool:
    """A norm of torch, or a leaf that only has gains and biases."""
    if isinstance(module, _NORMS):
        return True
    parameters = list(module.parameters())
    leaf = next(module.children(), None) is None
    return leaf and bool(parameters) and all(parameter.ndim <= 1 for parameter in parameters)


def is_sublayer_like(module: nn.Module) -> bool:
    """Neither norm, dropout, identity nor anything else without a matrix."""
    if is_norm(module) or isinstance(module, _DropoutNd | nn.Identity):
        return False
    return any(parameter.ndim >= 2 for parameter in module.parameters())


def parameter_count(module: nn.Module) -> int:
    """Count the entries of all parameters; those that a lazy module has not made yet count as none."""
    return sum(0 if is_lazy(parameter) else parameter.numel() for parameter in module.parameters())


def kind_by_shape(modules: Iterable[nn.Module]) -> Kind:
    """Guess attention or MLP by the shapes of the linear maps: what is left where behaviour can't be seen."""
    parts = [part for module in modules for part in module.modules()]
    if any(isinstance(part, nn.MultiheadAttention) for part in parts):
        return "attention"
    shapes = [(part.in_features, part.out_features) for part in parts if isinstance(part, nn.Linear)]
    if any(inner > width and (inner, width) in shapes for width, inner in shapes):
        return "mlp"
    for width, _ in shapes:
        fused = (width, 3 * width) in shapes
        apart = sum(inputs == width and outputs <= width for inputs, outputs in shapes) >= 3
        if fused or apart:
            return "attention"
    return "other"
