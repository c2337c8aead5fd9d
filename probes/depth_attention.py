"""Which earlier sources each target reads: weights, and what the weighted sources make of the read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, sum_over_tokens, totals
from depthscope.quantities import quantity, reachable


@dataclass(frozen=True, kw_only=True)
class DepthAttention:
    """alpha and alpha <v, h> / ||h||^2 over (target, source), and their summaries per target.

    At a mixer, `seen` holds ``weights`` [n_sources, tokens], ``read`` [tokens, d] and ``source 0`` ...
    ``source n-1`` [tokens, d]. Each head of a token has a row of its own, the heads of one token one after the other;
    a share is one of the whole token's read.
    """

    name: ClassVar[str] = "depth_attention"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("mixer", "query")
    quantities: ClassVar[tuple[str, ...]] = (
        "depth_attention",
        "depth_contribution",
        "source_rms",
        "depth_attention_std",
        "depth_attention_entropy",
        "depth_attention_max",
        "depth_distance",
        "newest_weight",
        "embedding_weight",
        "query_norm",
    )
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {
            "weight": "sum",
            "weight_deviation_square": "sum",
            "contribution": "sum",
            "source_square": "sum",
            "entropy": "sum",
            "largest": "sum",
            "query": "norm",
        }
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        if site.kind == "query":
            return {"query": seen["query"].norm.reshape(())}
        weights, read = seen["weights"].tensor, seen["read"]
        sources = [seen[f"source {place}"] for place in range(len(site.columns))]
        shares = shares_of_read(site, weights, sources, read)
        squares = torch.stack([source.norm for source in sources]).square()
        # Deviations from the uniform weight, not from 0: a spread of 1e-5 around 0.25 survives fp32 squares.
        deviation = weights - 1 / len(sources)
        per_token = torch.stack([weights, deviation * deviation, shares, squares])
        over_sources = sum_over_tokens(per_token, read.counted)
        names = ("weight", "weight_deviation_square", "contribution", "source_square")
        return dict(zip(names, over_sources.unbind(), strict=True)) | totals(
            {"entropy": torch.special.entr(weights).sum(0), "largest": weights.amax(0)}, read.counted
        )

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        tokens, width = row.tokens["mixer"][:, None], row.width["mixer"][:, None]
        reach = np.array(reachable(quantity("depth_attention"), row.layout), dtype=bool)
        counts = reach.sum(axis=1)
        # Columns grow with age reversed: the newest source a target can read has distance 1.
        distance = np.where(reach, np.cumsum(reach[:, ::-1], axis=1)[:, ::-1], 0)
        weight = merged["weight"] / tokens
        uniform = 1 / np.maximum(counts, 1)[:, None]
        variance = merged["weight_deviation_square"] / tokens - (weight - uniform) ** 2
        normaliser = np.where(counts > 1, np.log(np.maximum(counts, 2)), np.nan)

        def chosen(entries: npt.NDArray[np.bool_]) -> Array:
            return np.where(entries.any(axis=1), np.where(entries, weight, 0).sum(axis=1), np.nan)

        return {
            "depth_attention": weight,
            "depth_contribution": merged["contribution"] / tokens,
            "source_rms": np.sqrt(merged["source_square"] / (tokens * width)),
            "depth_attention_std": np.sqrt(np.maximum(variance, 0)),
            "depth_attention_entropy": merged["entropy"] / tokens[:, 0] / normaliser,
            "depth_attention_max": merged["largest"] / tokens[:, 0],
            "depth_distance": np.where(reach, weight * distance, 0).sum(axis=1) / (counts > 0),
            "newest_weight": chosen(distance == 1),
            "embedding_weight": chosen(reach & (np.arange(reach.shape[1]) == 0)),
            "query_norm": merged["query"],
        }


def shares_of_read(site: Site, weights: Tensor, sources: Sequence[Activation], read: Activation) -> Tensor:
    """Return alpha <v, h> / ||h||^2, [n_sources, tokens heads], whose mean over the heads of a token is its share."""
    size = read.square
    if site.heads > 1:
        by_token = size.reshape(-1, site.heads)
        size = by_token.mean(-1, keepdim=True).expand_as(by_token).reshape(-1)
    return torch.stack([source.dot(read) for source in sources]) * weights / size
