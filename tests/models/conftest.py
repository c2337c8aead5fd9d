"""Small decoders whose weights are no longer at their start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from depthscope.models import Decoder, DecoderConfig, Residual, residual_from_string

Build = Callable[..., Decoder]


@pytest.fixture
def config() -> DecoderConfig:
    return DecoderConfig(vocabulary=31, width=24, layers=8, heads=3, context=16)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(0, 31, (2, 13), generator=torch.Generator().manual_seed(3))


@pytest.fixture
def build(config: DecoderConfig) -> Build:
    """Return ``build(design, like=None, jitter=0)``.

    `design` is a string or a residual. Parameters outside the residual are copied by name from `like`; `jitter`
    then moves the residual's own away from their start.
    """

    def build(
        design: str | Residual,
        *,
        like: Decoder | None = None,
        jitter: float = 0.0,
        config: DecoderConfig = config,
    ) -> Decoder:
        torch.manual_seed(0)
        residual = residual_from_string(design, config) if isinstance(design, str) else design
        model = Decoder(residual.config, residual)
        generator = torch.Generator().manual_seed(5)
        given = dict(like.named_parameters()) if like is not None else {}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.startswith("residual."):
                    parameter.add_(jitter * torch.randn(parameter.shape, generator=generator))
                elif name in given:
                    parameter.copy_(given[name])
                elif name.endswith("norm.weight"):
                    parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
                else:
                    # Larger than at the start, so that every sublayer matters to the logits.
                    parameter.mul_(5)
        return model

    return build


def gradients(model: nn.Module, logits: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Return the gradient of the next-token loss for each parameter that has one."""
    model.zero_grad()
    nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture(name="gradients")
def gradients_fixture() -> Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]:
    return gradients
