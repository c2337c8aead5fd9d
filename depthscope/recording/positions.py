"""Which token positions of a forward count: all of them, or those of a mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NOTHING_FITS = torch.zeros(0, 0, dtype=torch.bool)
"""In place of a mask that is none: whoever gave one wants some positions left out, so all of them can't count."""


def checked_mask(mask: Any, device: torch.device) -> Tensor:
    """Return a mask of our own on `device`, bool: the loop may go on to use its tensor for the next batch.

    Raises:
        TypeError: it is no tensor of bool, or of whole numbers as tokenizers give, with an entry for each position.
    """
    found = _no_mask(mask)
    if not found and mask.is_meta and device.type != "meta":
        found = "a tensor on the meta device, which holds nothing"
    if found:
        raise TypeError(
            f"recorder.tokens got {found}; expected a bool tensor [batch, time], True where a position counts"
        )
    counted: Tensor = mask != 0
    return counted.to(device, non_blocking=True)


def _no_mask(mask: Any) -> str:
    """Return what `mask` is when it is none; empty when it is one."""
    if not isinstance(mask, Tensor):
        return f"a {type(mask).__name__}"
    if mask.is_floating_point() or mask.is_complex():
        return f"a tensor of {mask.dtype}"
    if not mask.dim():
        return "a tensor with one entry and no dims"
    if mask.is_nested or mask.layout != torch.strided:
        return "a nested tensor" if mask.is_nested else f"a tensor of layout {mask.layout}"
    return ""


def fits(mask: Tensor | None, tensor: Tensor) -> bool:
    """Whether the positions of `tensor` [..., d] are those of the mask, in its order.

    They may be flattened, and each may hold several vectors (streams). The weights of a depth mixer have the sources in
    front of them, and may have heads behind. A mask of one dim is over flat positions: over the sequences of a batch
    it would leave out whole ones.
    """
    if mask is None:
        return True
    leading = tensor.shape[:-1]
    flat = tuple(size for size in leading if size != 1) == (mask.numel(),)
    if flat or mask.dim() < 2:
        return flat or (mask.shape in (leading, tensor.shape[1:]))
    return leading[: mask.dim()] == mask.shape or tensor.shape[1 : 1 + mask.dim()] == mask.shape


def over_tokens(mask: Tensor | None, tensor: Tensor) -> Tensor | None:
    """Return the mask as a vector over the positions [tokens] of a `tensor` that it fits."""
    if mask is None:
        return None
    leading = tensor.shape[:-1]
    if leading[: mask.dim()] != mask.shape or len(leading) == mask.dim():
        return mask.reshape(-1)
    streams = (1,) * (len(leading) - mask.dim())
    return mask.reshape(*mask.shape, *streams).expand(leading).reshape(-1)
