"""Which parameter is trained by which optimizer."""

from __future__ import annotations

from typing import Literal

from torch import nn
from torch.optim import AdamW, Optimizer

from depthscope.training.muon import Muon

OptimizerName = Literal["adamw", "muon"]


def build_optimizers(
    model: nn.Module, name: OptimizerName, *, learning_rate: float, weight_decay: float
) -> list[Optimizer]:
    """Return the optimizers of a decoder, each parameter in exactly one of them.

    ``adamw``: one AdamW. ``muon``: Muon for the matrices of the sublayers, AdamW for all else (embedding, head,
    norms, and whatever the residual design owns). Weight decay acts on matrices, not on vectors and scalars.
    """
    hidden, matrices, others = [], [], []
    for path, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim < 2:
            others.append(parameter)
        elif name == "muon" and path.startswith("layers."):
            hidden.append(parameter)
        else:
            matrices.append(parameter)
    # Not fused: the fused kernel divides by a loss scale on its own, and CPU and CUDA would differ.
    adamw = AdamW(
        [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.95),
        fused=False,
    )
    if name == "adamw":
        return [adamw]
    return [adamw, Muon(hidden, lr=learning_rate, weight_decay=weight_decay)]
