"""How much the mixing of streams, over the sublayers that are left, makes of what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, sum_over_tokens

_GAINS = (
    "gain_forward",
    "gain_forward_min",
    "gain_forward_abs",
    "gain_backward",
    "gain_backward_min",
    "gain_backward_abs",
)


@dataclass(frozen=True, kw_only=True)
class StreamGain:
    """Row and column sums of P = H_L ... H_l of each token, for every sublayer l.

    `seen` holds ``weights 1`` ... ``weights L`` [tokens, n n], rows of H_l one after the other; of weights that
    don't depend on the token, one row.
    """

    name: ClassVar[str] = "stream_gain"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("stream_product",)
    quantities: ClassVar[tuple[str, ...]] = _GAINS
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({name: "sum" for name in _GAINS})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        count, last = site.streams, seen[f"weights {len(seen)}"]
        product: Tensor | None = None
        gains: list[Tensor] = []
        for layer in range(len(seen), 0, -1):
            weights = seen[f"weights {layer}"]
            mixing = weights.tensor.reshape(-1, count, count).to(weights.dtype)
            product = mixing if product is None else product @ mixing
            gains.append(_gains(product))
        summed = sum_over_tokens(torch.stack(gains[::-1], dim=1), last.counted)
        return dict(zip(_GAINS, summed.unbind(), strict=True))

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        tokens = row.tokens["stream_product"]
        return {name: (merged[name] / tokens).reshape(-1) for name in _GAINS}


def _gains(product: Tensor) -> Tensor:
    """Return the six gains [6, tokens] of P [tokens, n, n]."""
    found = []
    for axis in (-1, -2):
        signed, unsigned = product.sum(axis).abs(), product.abs().sum(axis)
        found += [signed.amax(-1), signed.amin(-1), unsigned.amax(-1)]
    return torch.stack(found)
