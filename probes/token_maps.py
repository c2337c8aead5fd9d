"""Depth mixing token by token, for the few tokens of a probe batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.depth_attention import shares_of_read
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind


@dataclass(frozen=True, kw_only=True)
class TokenMaps:
    """alpha and alpha <v, h> / ||h||^2 over (target, source, token); NaN where a target can't read. Of heads the mean."""

    sources: int
    """Entries of the source axis."""
    tokens: int
    """The first so many tokens of the batch."""

    name: ClassVar[str] = "token_maps"
    stream: ClassVar[str] = "probe"
    sites: ClassVar[tuple[SiteKind, ...]] = ("mixer",)
    quantities: ClassVar[tuple[str, ...]] = ()
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {"weight_by_token": "sum", "contribution_by_token": "sum"}
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        weights, read = seen["weights"].tensor, seen["read"]
        sources = [seen[f"source {place}"] for place in range(len(site.columns))]
        shares = shares_of_read(site, weights, sources, read)
        by_token = (len(sources), -1, site.heads)
        return {
            "weight_by_token": self._laid_out(site, weights.reshape(by_token).mean(-1)),
            "contribution_by_token": self._laid_out(site, shares.reshape(by_token).mean(-1)),
        }

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        shape = (len(row.layout.sources), self.sources, self.tokens)
        return {
            "depth_attention_by_token": merged["weight_by_token"].reshape(shape),
            "depth_contribution_by_token": merged["contribution_by_token"].reshape(shape),
        }

    def _laid_out(self, site: Site, values: Tensor) -> Tensor:
        """Return [sources * tokens] of one size for all targets, from [n_sources, tokens]."""
        whole = torch.full((self.sources, self.tokens), torch.nan, device=values.device)
        first = values[:, : self.tokens].to(whole.dtype)
        whole[list(site.columns), : first.shape[1]] = first
        return whole.reshape(-1)
