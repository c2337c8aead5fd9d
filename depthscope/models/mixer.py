"""A depth mixer: softmax attention of one read over the sources before it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from depthscope.marks import coefficient
from depthscope.models.norm import RMSNorm, rms_scale


def depth_softmax(sources: Tensor, query: Tensor, key_gain: Tensor, eps: float) -> Tensor:
    """Return alpha_i = softmax_i(w . RMSNorm(v_i)), shape [n_sources, batch, time], in float32 or better.

    `sources` is [n_sources, batch, time, d], `query` and `key_gain` are [d]. The gain goes into the query,
    w . (g * k) = (g * w) . k, so no normalised copy of the sources is made.
    """
    sources = sources.to(torch.promote_types(sources.dtype, torch.float32))
    effective = (query * key_gain).to(sources.dtype)
    return torch.softmax((sources @ effective) * rms_scale(sources, eps).squeeze(-1), dim=0)


class DepthWeights(nn.Module):
    """Door through which the weights alpha [n_sources, batch, time] pass; owns no parameters."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, sources: Tensor, query: Tensor, key_gain: Tensor) -> Tensor:
        with torch.autocast(device_type=sources.device.type, enabled=False):
            return coefficient(depth_softmax, sources, query, key_gain, self.eps)


class DepthMixer(nn.Module):
    """h = sum_i alpha_i v_i with alpha = softmax_i(w . RMSNorm(v_i)): values not normalised, no 1/sqrt(d).

    The query w starts at zero, so that alpha is uniform and h the mean of the sources.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))
        self.key_norm = RMSNorm(width, eps)
        self.weights = DepthWeights(eps)

    def forward(self, sources: Sequence[Tensor]) -> Tensor:
        """Return the read [batch, time, d] from sources of that shape, oldest first."""
        alpha = self.weights(torch.stack(tuple(sources)), self.query, self.key_norm.weight).unsqueeze(-1)
        # Adding up source by source costs two thirds of a product with the stack, which it need not keep.
        read: Tensor = alpha[0] * sources[0]
        for weight, source in zip(alpha[1:], sources[1:], strict=True):
            read = torch.addcmul(read, weight, source)
        return read.to(sources[0].dtype)
