"""A depth mixer: attention of one read over the sources before it, with the paper's variants of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from depthscope.marks import coefficient
from depthscope.models.norm import RMSNorm, rms_scale
from depthscope.models.precision import at_least_float32

Score = Literal["softmax", "sigmoid"]
Query = Literal["learned", "input", "none"]


@dataclass(frozen=True, kw_only=True)
class MixerOptions:
    """How a depth mixer weighs its sources; as they are, those of Attention Residuals."""

    query: Query = "learned"
    """``learned``: a vector w. ``input``: w + P v_newest, P [d, d] and 0 at the start, so that the query depends on
    the token. ``none``: no query and no keys, one learned number a source."""
    score: Score = "softmax"
    """``sigmoid``: each source has a weight from 0 to 1 of its own, and they need not sum to 1."""
    key_norm: bool = True
    """False: keys are the sources as they are."""
    heads: int = 1
    """Parts of the features that have weights of their own."""

    def check(self, width: int) -> None:
        """Raise ValueError where the options contradict each other or the width."""
        if self.heads < 1 or width % self.heads:
            raise ValueError(f"heads={self.heads}: expected a divisor of the width {width}")
        if self.query == "none" and (self.heads > 1 or not self.key_norm):
            raise ValueError("query=none has neither keys nor heads: leave heads and keynorm out")


def depth_softmax(sources: Tensor, query: Tensor, key_gain: Tensor, eps: float) -> Tensor:
    """Return alpha_i = softmax_i(w . RMSNorm(v_i)), shape [n_sources, batch, time], in float32 or better.

    `sources` is [n_sources, batch, time, d], `query` and `key_gain` are [d].
    """
    return torch.softmax(depth_logits(sources, query, key_gain, eps), dim=0)


def depth_logits(sources: Tensor, query: Tensor, key_gain: Tensor, eps: float) -> Tensor:
    """Return w . RMSNorm(v_i), shape [n_sources, batch, time], in float32 or better.

    The gain goes into the query, w . (g * k) = (g * w) . k, so no normalised copy of the sources is made.
    """
    sources = at_least_float32(sources)
    effective = (query * key_gain).to(sources.dtype)
    return (sources @ effective) * rms_scale(sources, eps).squeeze(-1)


class DepthWeights(nn.Module):
    """Door through which the weights alpha pass, [n_sources, batch, time]; with heads [..., heads]. Owns no parameters."""

    def __init__(self, eps: float, options: MixerOptions) -> None:
        super().__init__()
        self.eps = eps
        self.options = options

    def forward(
        self, sources: Tensor, query: Tensor, key_gain: Tensor | None = None, projection: Tensor | None = None
    ) -> Tensor:
        with torch.autocast(device_type=sources.device.type, enabled=False):
            return coefficient(self._weights, sources, query, key_gain, projection)

    def _weights(
        self, sources: Tensor, query: Tensor, key_gain: Tensor | None, projection: Tensor | None
    ) -> Tensor:
        logits = self._logits(sources, query, key_gain, projection)
        return torch.softmax(logits, dim=0) if self.options.score == "softmax" else torch.sigmoid(logits)

    def _logits(
        self, sources: Tensor, query: Tensor, key_gain: Tensor | None, projection: Tensor | None
    ) -> Tensor:
        if self.options.query == "none":
            return at_least_float32(query).view(-1, 1, 1).expand(sources.shape[:-1])
        if key_gain is not None and self.options.heads == 1:
            learned = depth_logits(sources, query, key_gain, self.eps)
            if projection is None:
                return learned
            # Apart from the learned query, so that a projection of 0 changes not even the rounding.
            return learned + self._products(sources, project(sources, projection), key_gain).sum(-1)
        if projection is not None:
            query = query + project(sources, projection)
        products = self._products(sources, query, key_gain)
        return products.sum(-1) if self.options.heads == 1 else split(products, self.options.heads).sum(-1)

    def _products(self, sources: Tensor, query: Tensor, key_gain: Tensor | None) -> Tensor:
        """Return query times key, feature by feature, [n_sources, batch, time, d], in float32 or better."""
        sources, query = at_least_float32(sources), at_least_float32(query)
        if key_gain is None:
            return sources * query
        return sources * rms_scale(sources, self.eps) * (query * key_gain)


class DepthMixer(nn.Module):
    """h = sum_i alpha_i v_i with alpha = softmax_i(w . RMSNorm(v_i)): values not normalised, no 1/sqrt(d).

    The query w starts at zero, so that softmax weights are uniform and h the mean of `count` sources.
    """

    def __init__(self, width: int, eps: float, count: int, options: MixerOptions) -> None:
        super().__init__()
        self.heads = options.heads
        self.query = nn.Parameter(torch.zeros(count if options.query == "none" else width))
        keyed = options.key_norm and options.query != "none"
        self.key_norm = RMSNorm(width, eps) if keyed else None
        self.projection = nn.Parameter(torch.zeros(width, width)) if options.query == "input" else None
        self.weights = DepthWeights(eps, options)

    def forward(self, sources: Sequence[Tensor]) -> Tensor:
        """Return the read [batch, time, d] from sources of that shape, oldest first."""
        gain = None if self.key_norm is None else self.key_norm.weight
        weights: Tensor = self.weights(torch.stack(tuple(sources)), self.query, gain, self.projection)
        return mix(weights, sources) if self.heads == 1 else mix_heads(weights, sources, self.heads)


def project(sources: Tensor, projection: Tensor) -> Tensor:
    """Return P v_newest [batch, time, d], in float32 or better."""
    return at_least_float32(sources[-1]) @ at_least_float32(projection).T


def mix(weights: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """Return sum_i alpha_i v_i from alpha [n_sources, batch, time] and sources [batch, time, d]."""
    return _weighted_sum(weights.unsqueeze(-1), sources)


def mix_heads(weights: Tensor, sources: Sequence[Tensor], heads: int) -> Tensor:
    """Return the same where each head's features have weights of their own, alpha [n_sources, batch, time, heads]."""
    # Weights spread over features, never sources split into heads: torch 2.13's inductor then overwrites, where no
    # gradient is wanted, a source that is read once more.
    features = sources[0].shape[-1] // heads
    return _weighted_sum(weights.unsqueeze(-1).expand(*weights.shape, features).flatten(-2), sources)


def _weighted_sum(weights: Tensor, sources: Sequence[Tensor]) -> Tensor:
    # Adding up source by source costs two thirds of a product with the stack, which it need not keep.
    read = weights[0] * sources[0]
    for weight, source in zip(weights[1:], sources[1:], strict=True):
        read = torch.addcmul(read, weight, source)
    return read.to(sources[0].dtype)


def split(x: Tensor, heads: int) -> Tensor:
    """Return [..., d] as [..., heads, d / heads]."""
    return x.reshape(*x.shape[:-1], heads, -1)
