"""A small language model around blocks of any kind, and what passes its ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.anatomy import port_value
from depthscope.marks import DepthAxis, Port
from tests.anatomy.foreign_blocks import WIDTH, Row

VOCABULARY, CONTEXT = 17, 6


class ForeignGPT(nn.Module):
    """Embedding, blocks, norm and head under names of no meaning; no config; logits out."""

    def __init__(self, block: Callable[[], nn.Module], blocks: int = 3, *, tied: bool = False) -> None:
        super().__init__()
        # Registered last to first, so that nothing can be read off the order of the names.
        self.w = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.m = nn.LayerNorm(WIDTH)
        self.stack = nn.ModuleList(block() for _ in range(blocks))
        self.t = nn.Embedding(VOCABULARY, WIDTH)
        self.r = nn.Parameter(0.1 * torch.randn(1, CONTEXT, WIDTH))
        if tied:
            self.w.weight = self.t.weight

    def embed(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.t(tokens) + self.r[:, : tokens.shape[1]]
        return x.transpose(0, 1) if hasattr(self.stack[0], "time_first") else x

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.stack:
            if hasattr(block, "keywords"):
                x, _ = block(hidden_states=x, scale=torch.tensor(0.5))
            else:
                x = block(x)
        logits: Tensor = self.w(self.m(x))
        return logits


def moved(model: nn.Module) -> nn.Module:
    """Move every parameter away from its start, those that are zero excepted."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.abs().sum() > 0:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def tokens(batch: int = 2, time: int = 5) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, time))


def by_hand(model: Any, formula: Any, ids: Tensor) -> tuple[Tensor, list[Row], Tensor]:
    """Return the embedding's output, the rows of all sublayers, and the final read."""
    embedded = model.embed(ids)
    rows: list[Row] = []
    x = embedded
    for block in model.stack:
        more, x = formula(block, x)
        rows += more
    return embedded, rows, x


def through_ports(axis: DepthAxis, model: nn.Module, run: Callable[[], Any]) -> dict[Port, Tensor]:
    """Return what passes each port of the axis while `run` runs, copied at that moment."""
    ports = [axis.embedding, axis.final_read]
    for sublayer in axis.sublayers:
        ports += [sublayer.read, sublayer.write, sublayer.state]
    shown: dict[Port, Tensor] = {}
    handles = []

    def show(port: Port, args: Any, kwargs: Any, output: Any) -> None:
        tensor = port_value(port, args, kwargs, output)
        assert tensor is not None, f"nothing passes {port}"
        assert port not in shown, f"{port} was passed twice"
        shown[port] = tensor.detach().clone()

    for port in {port for port in ports if port is not None}:
        module = model.get_submodule(port.module)
        if port.side == "input":
            handles.append(
                module.register_forward_pre_hook(
                    lambda m, args, kwargs, port=port: show(port, args, kwargs, None), with_kwargs=True
                )
            )
        else:
            handles.append(
                module.register_forward_hook(
                    lambda m, args, kwargs, output, port=port: show(port, args, kwargs, output),
                    with_kwargs=True,
                )
            )
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return shown
