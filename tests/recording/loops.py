"""Small models and a plain training loop, written as a user would."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from depthscope.models import Decoder, DecoderConfig, residual_from_string

VOCABULARY, BATCH, TIME, WIDTH, LAYERS = 61, 3, 10, 24, 8
DESIGNS = ("prenorm", "full-attnres", "block-attnres:S=3", "hires:B=2,n=2")


class Mix(nn.Module):
    """Causal attention under another name, with its parts under others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.zig, self.zag = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.zig(x).view(batch, time, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.zag(y.transpose(1, 2).reshape(batch, time, width))


class Stage(nn.Module):
    """A pre-norm transformer block whose names say nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.u, self.alpha = nn.LayerNorm(width), Mix(width)
        self.w = nn.LayerNorm(width)
        self.beta = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.alpha(self.u(x))
        return x + self.beta(self.w(x))


class ForeignGPT(nn.Module):
    """A GPT with no config and no familiar name."""

    def __init__(self, stages: int = LAYERS // 2, width: int = WIDTH, time: int = TIME) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(time, width)
        self.tower = nn.ModuleList(Stage(width) for _ in range(stages))
        self.last, self.out = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.places.weight[: ids.shape[1]]
        for stage in self.tower:
            x = stage(x)
        return self.out(self.last(x))


def build(design: str, seed: int = 0) -> nn.Module:
    """Return the foreign GPT, or a reference decoder with the design."""
    torch.manual_seed(seed)
    if design == "foreign":
        return ForeignGPT()
    config = DecoderConfig(vocabulary=VOCABULARY, width=WIDTH, layers=LAYERS, heads=2, context=TIME)
    return Decoder(config, residual_from_string(design, config))


def batches(seed: int = 1) -> Callable[[], tuple[Tensor, Tensor]]:
    """Return a function that draws the next batch: inputs and targets [BATCH, TIME]."""
    generator = torch.Generator().manual_seed(seed)

    def draw() -> tuple[Tensor, Tensor]:
        ids = torch.randint(0, VOCABULARY, (BATCH, TIME + 1), generator=generator)
        return ids[:, :-1], ids[:, 1:]

    return draw


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def train(
    model: nn.Module,
    steps: int,
    draw: Callable[[], tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    after: Callable[[Tensor], None] = lambda loss: None,
) -> list[float]:
    """Run the loop; `after` is called once per optimizer step with the loss."""
    losses = []
    for _ in range(steps):
        loss = loss_of(model, *draw())
        loss.backward()
        optimizer.step()
        after(loss.detach())
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
