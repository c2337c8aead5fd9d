"""v_0: what enters the depth axis."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig


class Embedding(nn.Module):
    """Token embedding, plus a learned position embedding where positions are not rotary.

    Takes token ids [batch, time] and returns v_0 [batch, time, d].
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.context = config.context
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = (
            nn.Parameter(torch.empty(config.context, config.width)) if config.positions == "learned" else None
        )

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[-1]
        if time > self.context:
            raise ValueError(
                f"a sequence of {time} tokens is longer than the context of {self.context}; cut it, or build the "
                f"model with DecoderConfig(context={time})"
            )
        embedded: Tensor = self.token(tokens)
        return embedded if self.position is None else embedded + self.position[:time]
