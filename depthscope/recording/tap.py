"""Gradients in compiled code: a function that passes its input on and looks at what comes back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from depthscope.probes import Activation
from depthscope.recording.accumulator import Accumulator


class _Tap(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, counted: Tensor | None, accumulators: tuple[Accumulator, ...]
    ) -> Tensor:
        ctx.accumulators, ctx.masked = accumulators, counted is not None
        if counted is not None:
            ctx.save_for_backward(counted)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        # A recomputation makes a second tensor, and only one of the two gets a gradient: nothing counts twice.
        seen = Activation(gradient, counted=ctx.saved_tensors[0] if ctx.masked else None)
        for accumulator in ctx.accumulators:
            accumulator.add({"gradient": seen}, seen, None)
        return gradient, None, None


def tap(tensor: Tensor, counted: Tensor | None, accumulators: tuple[Accumulator, ...]) -> Tensor:
    """Return `tensor` unchanged; its gradient, where it is `counted`, will be added to `accumulators`."""
    tapped: Tensor = _Tap.apply(tensor, counted, accumulators)  # type: ignore[no-untyped-call]
    # A copy: the model may change the tensor in place, which a view made by a custom function forbids.
    return tapped.clone()
