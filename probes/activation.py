"""A tensor as it passed, with the reductions already made of it."""

from __future__ import annotations

import torch
from torch import Tensor


class Activation:
    """One tensor of shape [..., d] seen at a port, reduced over features once for all who ask.

    Reductions run in `dtype` whatever the tensor's own, unless that is wider: an fp16 norm overflows at 65,504, and
    a double tensor is never narrowed. They are made of the values at the time of asking, so ask before the model can
    change the tensor in place.
    """

    __slots__ = ("_dots", "_norm", "_square", "counted", "dtype", "tensor")

    def __init__(
        self, tensor: Tensor, dtype: torch.dtype = torch.float32, *, counted: Tensor | None = None
    ) -> None:
        """`counted` [tokens], bool: which positions count; None: all."""
        dense = _rows(tensor) if tensor.is_nested else tensor
        self.tensor = dense.detach() if dense.requires_grad else dense
        self.dtype = torch.float64 if tensor.dtype == torch.float64 else dtype
        self.counted = counted
        self._norm: Tensor | None = None
        self._square: Tensor | None = None
        self._dots: dict[int, tuple[Activation, Tensor]] = {}

    @property
    def width(self) -> int:
        """d."""
        return self.tensor.shape[-1]

    @property
    def tokens(self) -> int:
        """Number of token positions, be they counted or not."""
        return self.tensor.numel() // max(1, self.width)

    @property
    def norm(self) -> Tensor:
        """L2 norm of every token's vector, shape [tokens]."""
        if self._norm is None:
            self._norm = torch.linalg.vector_norm(self.tensor, dim=-1, dtype=self.dtype).reshape(-1)
        return self._norm

    @property
    def square(self) -> Tensor:
        """Squares of the norms, shape [tokens]."""
        if self._square is None:
            self._square = self.norm * self.norm
        return self._square

    def dot(self, other: Activation) -> Tensor:
        """Inner product with `other` for every token, shape [tokens]."""
        key = id(other)
        if key not in self._dots:
            left, right = self.tensor.to(self.dtype), other.tensor.to(self.dtype)
            # `other` is kept beside its product, so that its id can't be given to another activation.
            self._dots[key] = other, torch.linalg.vecdot(left, right).reshape(-1)
        return self._dots[key][1]


def _rows(nested: Tensor) -> Tensor:
    """Return the tokens of all sequences of a nested tensor one after the other, [tokens, d]."""
    if torch.compiler.is_compiling():
        return nested.detach().values()  # only jagged tensors are compiled
    if nested.layout == torch.jagged and nested.lengths() is None:  # type: ignore[attr-defined]
        return nested.detach().values()
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in nested.detach().unbind()])
