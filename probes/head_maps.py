"""Depth mixing head by head, where parts of the features have weights of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, sum_over_tokens


@dataclass(frozen=True, kw_only=True)
class HeadMaps:
    """alpha over (target, source, head); NaN where a target can't read. Seen as `DepthAttention` sees it."""

    sources: int
    """Entries of the source axis."""
    heads: int

    name: ClassVar[str] = "head_maps"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("mixer",)
    quantities: ClassVar[tuple[str, ...]] = ("depth_attention_by_head",)
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"weight_by_head": "sum"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        if self.heads < 2:
            return {}
        weights, counted = seen["weights"].tensor, seen["read"].counted
        by_head = weights.reshape(len(site.columns), -1, self.heads).transpose(-1, -2)
        # The heads of a token count together.
        tokens = None if counted is None else counted.reshape(-1, self.heads)[:, 0]
        whole = torch.full((self.sources, self.heads), torch.nan, device=weights.device, dtype=weights.dtype)
        whole[list(site.columns)] = sum_over_tokens(by_head, tokens)
        return {"weight_by_head": whole.reshape(-1)}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        if self.heads < 2:
            return {}
        targets = len(row.layout.sources)
        summed = merged["weight_by_head"].reshape(targets, self.sources, self.heads)
        return {"depth_attention_by_head": summed / (row.tokens["mixer"] / self.heads)[:, None, None]}
