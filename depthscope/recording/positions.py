"""Which token positions of a forward count: all of them, or those of a mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def checked_mask(mask: Any, device: torch.device) -> Tensor:
    """Return a mask of our own on `device`, bool: the loop may go on to use its tensor for the next batch.

    Raises:
        TypeError: it is no tensor of bool, or of whole numbers as tokenizers give.
    """
    if not isinstance(mask, Tensor) or mask.is_floating_point() or mask.is_complex():
        found = f"a tensor of {mask.dtype}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
        raise TypeError(
            f"recorder.tokens got {found}; expected a bool tensor [batch, time], True where a position counts"
        )
    return (mask != 0).to(device, non_blocking=True)


def fits(mask: Tensor | None, tensor: Tensor) -> bool:
    """Whether the positions of `tensor` [..., d] are those of the mask, in its order.

    They may be flattened, and each may hold several vectors (streams). The weights of a depth mixer have the sources in
    front of them, and may have heads behind.
    """
    if mask is None:
        return True
    leading = tensor.shape[:-1]
    flat = tuple(size for size in leading if size != 1) == (mask.numel(),)
    return flat or leading[: mask.dim()] == mask.shape or tensor.shape[1 : 1 + mask.dim()] == mask.shape


def over_tokens(mask: Tensor | None, tensor: Tensor) -> Tensor | None:
    """Return the mask as a vector over the positions [tokens] of a `tensor` that it fits."""
    if mask is None:
        return None
    leading = tensor.shape[:-1]
    if leading[: mask.dim()] != mask.shape or len(leading) == mask.dim():
        return mask.reshape(-1)
    streams = (1,) * (len(leading) - mask.dim())
    return mask.reshape(*mask.shape, *streams).expand(leading).reshape(-1)
