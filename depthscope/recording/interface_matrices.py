"""The matrices of a wide outer state's interfaces, asked of the modules that apply them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from depthscope.anatomy import is_sharded
from depthscope.marks import DepthAxis


class InterfaceMatrices:
    """R_b and W_b of every residual block, where they are said to be linear modules."""

    def __init__(self, axis: DepthAxis, model: nn.Module, outer_width: int) -> None:
        blocks = axis.outer if all(block.linear for block in axis.outer) else ()
        self.reads = tuple(model.get_submodule(block.read.module) for block in blocks)
        self._writes = tuple(model.get_submodule(block.write.module) for block in blocks)
        self._outer_width, self._model = outer_width, model

    def read(self, block: int, carry: Tensor) -> Tensor | None:
        """Return R_b transposed, [D, d], inside a forward in which it takes `carry`; None without such a module."""
        if not self.reads or _sharded(self.reads[block - 1]):
            return None
        return matrix_of(self.reads[block - 1], carry)

    def all(self) -> Mapping[str, Tensor]:
        """Return ``read b`` [D, d] and ``write b`` [d, D], transposed, of all blocks; none where one is sharded now."""
        if any(map(_sharded, (*self.reads, *self._writes))):
            return {}
        found: dict[str, Tensor] = {}
        like = next(self._model.parameters())
        for place, (read, write) in enumerate(zip(self.reads, self._writes, strict=True)):
            reading = matrix_of(read, like.new_empty(self._outer_width))
            found[f"read {place + 1}"] = reading
            found[f"write {place + 1}"] = matrix_of(write, reading[0])
        return found


def matrix_of(module: nn.Module, like: Tensor) -> Tensor:
    """Return the matrix of a linear module, transposed, [inputs, outputs]; it takes tensors [..., inputs] like `like`."""
    with torch.no_grad():
        # Its forward and not its call: hooks are for what passes in training.
        matrix: Tensor = module.forward(torch.eye(like.shape[-1], dtype=like.dtype, device=like.device))
    return matrix


def _sharded(module: nn.Module) -> bool:
    return any(map(is_sharded, module.parameters()))
