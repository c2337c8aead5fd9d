"""What stands where something was cut."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from depthscope.causal.error import CausalError

Mode = Literal["renormalise", "zero", "mean", "resample"]
"""``renormalise``: nothing, and the weights of what is left grow to the same sum; only where there are weights.
``zero``: nothing. ``mean``: its mean over the tokens of the batch. ``resample``: what it was on another batch."""
MODES: tuple[Mode, ...] = get_args(Mode)


def default_mode(kind: str, mixers: bool) -> Mode:
    """Return what stands in place of what a sweep of `kind` cuts where nobody says; `mixers`: there are weights."""
    return "renormalise" if mixers and kind in ("sources", "families") else "zero"


def replacement(mode: Mode, value: Tensor, donor: Tensor | None) -> Tensor:
    """Return what stands in the place of `value` [batch, time, d]; `donor` is its value on another batch."""
    if mode == "mean":
        return value.mean(dim=(0, 1), keepdim=True).expand_as(value)
    if mode == "resample":
        if donor is None or donor.shape != value.shape:
            found = "none" if donor is None else f"one of shape {tuple(donor.shape)}"
            raise CausalError(
                f"mode 'resample' takes values from another batch of the same shape {tuple(value.shape)}; found {found}"
            )
        return donor
    return value.new_zeros(()).expand_as(value)
