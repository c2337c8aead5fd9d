"""What a wide outer state holds at every residual-block boundary, before its norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, sum_over_tokens, totals


@dataclass(frozen=True, kw_only=True)
class OuterState:
    """Energies, ratio and cosine of carry and write, extra dimensions, gates, and the embedding's direct path.

    At an outer block, `seen` holds ``carry`` h_{b-1}, ``write`` W_b Phi_b, ``boundary`` (their sum), all
    [tokens, D], and ``outer_read`` R_b h_{b-1} [tokens, d].
    """

    name: ClassVar[str] = "outer_state"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("outer_block", "outer_direct", "gates")
    quantities: ClassVar[tuple[str, ...]] = (
        "outer_energy",
        "outer_write_energy",
        "outer_carry_energy",
        "outer_write_ratio",
        "outer_write_cosine",
        "outer_read_rms",
        "outer_extra_share",
        "outer_channel_energy",
        "interface_gate",
        "outer_direct",
    )
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {
            **{f"{tensor}_square": "sum" for tensor in ("carry", "write", "boundary", "outer_read")},
            "ratio": "sum",
            "cosine": "sum",
            "extra": "sum",
            "channel_square": "sum",
            "direct": "sum",
            "gate": "max",
            "read_width": "max",
        }
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        if site.kind == "gates":
            return {"gate": torch.sigmoid(seen["gates"].tensor.float())}
        if site.kind == "outer_direct":
            amplitude = seen["embedding"].norm / seen["state"].norm
            for name, boundary in seen.items():
                if name.startswith("boundary"):
                    amplitude = amplitude * boundary.width**0.5 / boundary.norm
            return totals({"direct": amplitude}, seen["state"].counted)
        carry, write, boundary, read = (seen[name] for name in ("carry", "write", "boundary", "outer_read"))
        inner = Activation(boundary.tensor[..., : read.width], boundary.dtype)
        squared = boundary.norm * boundary.norm
        sums = totals(
            {
                "carry_square": carry.norm * carry.norm,
                "write_square": write.norm * write.norm,
                "boundary_square": squared,
                "outer_read_square": read.norm * read.norm,
                "ratio": write.norm / carry.norm,
                "cosine": write.dot(carry) / (write.norm * carry.norm),
                "extra": 1 - inner.norm * inner.norm / squared,
            },
            boundary.counted,
        )
        squares = boundary.tensor.to(boundary.dtype).square().reshape(-1, boundary.width)
        channels = sum_over_tokens(squares.T, boundary.counted)
        width = torch.full_like(sums["ratio"], float(read.width))
        return sums | {"channel_square": channels, "read_width": width}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        tokens, width = row.tokens["outer_block"], row.width["outer_block"]
        entries = tokens * width
        return {
            "outer_energy": merged["boundary_square"] / entries,
            "outer_write_energy": merged["write_square"] / entries,
            "outer_carry_energy": merged["carry_square"] / entries,
            "outer_write_ratio": merged["ratio"] / tokens,
            "outer_write_cosine": merged["cosine"] / tokens,
            "outer_read_rms": np.sqrt(merged["outer_read_square"] / (tokens * merged["read_width"])),
            "outer_extra_share": merged["extra"] / tokens,
            "outer_channel_energy": merged["channel_square"] / tokens[:, None],
            "interface_gate": merged["gate"],
            "outer_direct": (merged["direct"] / row.tokens["outer_direct"]).reshape(()),
        }
