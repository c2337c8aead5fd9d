"""Causal self-attention, the odd-numbered sublayers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig


class Rotary(nn.Module):
    """Rotary positions (Su et al., arXiv 2104.09864): turn feature pairs (i, i + w/2) by position * 10000^(-2i/w).

    Takes and returns [batch, heads, time, head width]; owns no parameters.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(self, head_width: int, context: int) -> None:
        super().__init__()
        frequency = 10000.0 ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
        angle = torch.outer(torch.arange(context, dtype=torch.float64), frequency)
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cosine", angle.cos().float(), persistent=False)
        self.register_buffer("sine", angle.sin().float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        time = x.shape[-2]
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return (x * self.cosine[:time] + turned * self.sine[:time]).to(x.dtype)


class CausalAttention(nn.Module):
    """Multi-head attention of each token to itself and the tokens before it, without biases.

    Takes the normalised read and returns the sublayer's output, both [batch, time, d].
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.rotary = (
            Rotary(config.head_width, config.context) if config.positions == "rotary" else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        query, key, value = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(self.rotary(query), self.rotary(key), value, is_causal=True)
        output: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return output
