"""What lies around the blocks: embedding, final norm, head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from depthscope.anatomy.children import direct_children, is_inside, join


@dataclass
class Surroundings:
    """When the parts around the blocks were used in a forward: before the first block, between, or after."""

    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def sort(self, model: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return module paths and parameter names of embedding, final norm and head.

        What comes after the blocks is the final norm up to the first part with a matrix, the head from there.
        Parameters used in neither phase, or between the blocks, are in none.
        """
        head_from = next(
            (place for place, name in enumerate(self.after) if _has_matrix(model, name)), len(self.after)
        )
        embedding = [name for name in self.before if name not in _names(model) or _has_matrix(model, name)]
        norm = [name for name in self.after[:head_from] if name not in self.before]
        head = [name for name in self.after[head_from:] if name not in self.before]
        return tuple(embedding), tuple(norm), tuple(head)


def outer_parts(model: nn.Module, blocks: Sequence[str]) -> tuple[dict[str, nn.Module], list[str]]:
    """Return the topmost modules with parameters that hold no block, and the modules around the blocks.

    The second are the root and all others on the way to a block: their own parameters are used by themselves.
    """
    around = [
        path
        for path, _ in model.named_modules()
        if any(is_inside(block, path) and block != path for block in blocks)
    ]
    parts = {}
    for path in around:
        for name, child in direct_children(model.get_submodule(path)):
            full = join(path, name)
            holds = any(is_inside(block, full) or is_inside(full, block) for block in blocks)
            if not holds and next(child.parameters(), None) is not None:
                parts[full] = child
    return parts, around


def _names(model: nn.Module) -> set[str]:
    return {name for name, _ in model.named_parameters(remove_duplicate=False)}


def _has_matrix(model: nn.Module, name: str) -> bool:
    """Whether a module or parameter of that name has an entry of two dims or more."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if name in parameters:
        return parameters[name].ndim >= 2
    return any(parameter.ndim >= 2 for parameter in model.get_submodule(name).parameters())
