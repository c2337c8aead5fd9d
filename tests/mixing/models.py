"""Small decoders whose weights are no longer at their start, and their residual networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from depthscope.anatomy import untouched
from depthscope.mixing import ResidualNetwork, places_of
from depthscope.models import Decoder, DecoderConfig, residual_from_string

CONFIG = DecoderConfig(vocabulary=31, width=24, layers=8, heads=3, context=16)
TOKENS = torch.randint(0, 31, (2, 13), generator=torch.Generator().manual_seed(3))
"""Few enough to be the whole sample."""


def moved(design: str, config: DecoderConfig = CONFIG, jitter: float = 0.3) -> Decoder:
    """Return a decoder whose residual parameters lie `jitter` away from their start, and whose sublayers matter."""
    torch.manual_seed(0)
    model = Decoder(config, residual_from_string(design, config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("residual."):
                parameter.add_(jitter * torch.randn(parameter.shape))
            elif not name.endswith("norm.weight"):
                parameter.mul_(5)
    return model


@contextmanager
def network_of(model: Decoder, tokens: Tensor = TOKENS) -> Iterator[ResidualNetwork]:
    with untouched(model):
        yield ResidualNetwork(model, places_of(model.describe_depth()), (tokens,), {})


def relative(part: Tensor, whole: Tensor) -> float:
    """Return ||part|| / ||whole||."""
    return float(part.norm() / whole.norm())
