"""How large writes, states and reads are, and how a write stands to what its sublayer read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, largest_entry, totals


@dataclass(frozen=True, kw_only=True)
class Magnitude:
    """rms, typical token, gain, cosine, inner product, largest entry, non-finite tokens."""

    name: ClassVar[str] = "magnitude"
    stream: ClassVar[str] = "fast"
    sites: ClassVar[tuple[SiteKind, ...]] = ("embedding", "final_read", "write", "state")
    quantities: ClassVar[tuple[str, ...]] = (
        "write_rms",
        "write_logrms",
        "read_rms",
        "read_logrms",
        "state_rms",
        "state_logrms",
        "write_ratio",
        "write_cosine",
        "write_dot",
        "abs_max",
        "nonfinite",
        "embedding_rms",
        "embedding_logrms",
        "final_read_rms",
        "final_read_logrms",
    )
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {
            **{
                f"{tensor}_{what}": "sum"
                for tensor in ("write", "read", "state", "embedding", "final_read")
                for what in ("square", "log")
            },
            "ratio": "sum",
            "cosine": "sum",
            "dot": "sum",
            "nonfinite": "sum",
            "abs_max": "max",
        }
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        kind = site.kind
        norm, counted = seen[kind].norm, seen[kind].counted
        per_token = {f"{kind}_square": seen[kind].square, f"{kind}_log": norm.log()}
        if kind == "write" and "read" in seen:
            read = seen["read"].norm
            comparable = seen["read"].width == seen["write"].width
            # What all streams get of an output is wider than what was read, and has no angle with it.
            dot = seen["write"].dot(seen["read"]) if comparable else torch.full_like(norm, torch.nan)
            # `finish` divides by the write's width.
            per_feature = read if comparable else read * (seen["write"].width / seen["read"].width) ** 0.5
            per_token |= {
                "read_square": seen["read"].square if comparable else per_feature.square(),
                "read_log": per_feature.log(),
                "ratio": norm / read,
                "cosine": dot / (norm * read),
                "dot": dot,
            }
        if kind == "state":
            # A token's norm is finite exactly if its entries are; isfinite over all entries costs 10x on CPU. Of the
            # finite alone the difference to itself is 0, in two operations where isfinite takes four.
            per_token["nonfinite"] = (norm - norm != 0).to(norm.dtype)
            moments = totals(per_token, counted)
            moments["abs_max"] = largest_entry(seen["state"]).to(norm.dtype)
            return moments
        return totals(per_token, counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        values: dict[str, Array] = {}
        for tensor in ("write", "read", "state", "embedding", "final_read"):
            kind = "write" if tensor == "read" else tensor
            tokens, width = row.tokens[kind], row.width[kind]
            values[f"{tensor}_rms"] = np.sqrt(merged[f"{tensor}_square"] / (tokens * width))
            values[f"{tensor}_logrms"] = merged[f"{tensor}_log"] / tokens - 0.5 * np.log(width)
        for scalar in ("embedding_rms", "embedding_logrms", "final_read_rms", "final_read_logrms"):
            values[scalar] = values[scalar].reshape(())
        tokens = row.tokens["write"]
        # A write whose state passed no port, since the layers behind it were skipped: the rest is not the whole.
        partly = row.tokens["state"] < tokens
        for name in ("state_rms", "state_logrms"):
            values[name] = np.where(partly, np.nan, values[name])
        return values | {
            "write_ratio": merged["ratio"] / tokens,
            "write_cosine": merged["cosine"] / tokens,
            "write_dot": merged["dot"] / (tokens * row.width["write"]),
            "abs_max": np.where(partly | (row.tokens["state"] == 0), np.nan, merged["abs_max"]),
            "nonfinite": np.where(partly, np.nan, merged["nonfinite"]),
        }
