"""What each stream of a wide state holds, and how sublayers mix the streams."""

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
class Streams:
    """Energy of every stream, and the matrix H_l by which a sublayer mixes them.

    At a state, `seen` holds ``state`` [tokens, n k], its streams one after the other. Where streams are mixed it holds
    ``weights`` [tokens, n n], rows of H_l one after the other; of weights that don't depend on the token, one row.
    """

    name: ClassVar[str] = "streams"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("state", "stream_mixing")
    quantities: ClassVar[tuple[str, ...]] = ("stream_energy", "stream_mixing", "sinkhorn_residue")
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {"stream_square": "sum", "mixing": "sum", "residue": "sum"}
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        count = site.streams
        if not count:
            return {}
        if site.kind == "state":
            state = seen["state"]
            parts = state.tensor.reshape(state.tokens, count, -1)
            norms = torch.linalg.vector_norm(parts, dim=-1, dtype=state.dtype)
            return {"stream_square": sum_over_tokens(norms.square().T, state.counted)}
        weights = seen["weights"]
        rows = weights.tensor.reshape(-1, count * count).to(weights.dtype)
        matrices = rows.reshape(-1, count, count)
        off = torch.stack([matrices.sum(-1), matrices.sum(-2)]).sub(1).abs()
        residue = totals({"residue": off.amax((0, -1))}, weights.counted)
        return {"mixing": sum_over_tokens(rows.T, weights.counted), **residue}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        count, mixed = row.layout.streams, row.tokens["stream_mixing"]
        if not count:
            return {}
        width = row.width["state"] / count
        weights = np.broadcast_to(merged["mixing"], (len(mixed), count * count)) / mixed[:, None]
        return {
            "stream_energy": merged["stream_square"] / (row.tokens["state"] * width)[:, None],
            "stream_mixing": weights.reshape(-1, count, count),
            "sinkhorn_residue": merged["residue"] / mixed,
        }
