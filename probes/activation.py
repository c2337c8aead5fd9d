"""A tensor as it passed, with the reductions already made of it."""

from __future__ import annotations

import torch
from torch import Tensor


class Activation:
    """One tensor of shape [..., d] seen at a port, reduced over features once for all who ask.

    Reductions run in `dtype` (fp32 while training, fp64 in a reference), whatever the tensor's own dtype: an fp16
    norm overflows at 65,504. They are made of the values at the time of asking, so ask before the model can
    change the tensor in place.
    """

    __slots__ = ("_dots", "_norm", "_square", "_square_sum", "dtype", "tensor")

    def __init__(self, tensor: Tensor, dtype: torch.dtype = torch.float32) -> None:
        self.tensor = tensor.detach() if tensor.requires_grad else tensor
        self.dtype = dtype
        self._norm: Tensor | None = None
        self._square: Tensor | None = None
        self._square_sum: Tensor | None = None
        self._dots: dict[int, tuple[Activation, Tensor]] = {}

    @property
    def width(self) -> int:
        """d."""
        return self.tensor.shape[-1]

    @property
    def tokens(self) -> int:
        """Number of token positions."""
        return self.tensor.numel() // max(1, self.width)

    @property
    def norm(self) -> Tensor:
        """L2 norm of every token's vector, shape [tokens]."""
        if self._norm is None:
            self._norm = torch.linalg.vector_norm(self.tensor, dim=-1, dtype=self.dtype).reshape(-1)
        return self._norm

    @property
    def square(self) -> Tensor:
        """The same, squared."""
        if self._square is None:
            self._square = self.norm * self.norm
        return self._square

    @property
    def square_sum(self) -> Tensor:
        """Sum of the squares of all entries, 0-dim."""
        if self._square_sum is None:
            self._square_sum = self.square.sum()
        return self._square_sum

    @property
    def abs_max(self) -> Tensor:
        """Largest absolute entry, 0-dim; NaN where one is."""
        if torch.compiler.is_compiling():
            # Token by token, which shares the pass over the tensor with the norms.
            return self.tensor.abs().amax(-1).amax().to(self.dtype)
        low, high = torch.aminmax(self.tensor)
        return torch.maximum(-low, high).to(self.dtype)

    def dot(self, other: Activation) -> Tensor:
        """Inner product with `other` for every token, shape [tokens]."""
        key = id(other)
        if key not in self._dots:
            left, right = self.tensor.to(self.dtype), other.tensor.to(self.dtype)
            # `other` is kept beside its product, so that its id can't be given to another activation.
            self._dots[key] = other, torch.linalg.vecdot(left, right).reshape(-1)
        return self._dots[key][1]
