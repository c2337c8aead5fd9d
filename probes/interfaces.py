"""What the interfaces of a wide outer state read of it, and of what earlier blocks wrote to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, totals


@dataclass(frozen=True, kw_only=True)
class Interfaces:
    """Share of the outer state that a block does not read, and coupling of writes to later reads.

    At an outer read, `seen` holds ``carry`` h_{b-1} [tokens, D] and ``matrix`` R_b transposed, [D, d]. At the
    interfaces it holds ``read b`` R_b transposed, [D, d], and ``write b`` W_b transposed, [d, D], of each block b.
    """

    name: ClassVar[str] = "interfaces"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("outer_read", "interfaces")
    quantities: ClassVar[tuple[str, ...]] = ("outer_unread_share", "write_read_coupling")
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"unread": "sum", "coupling": "max"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        if site.kind == "outer_read":
            return self._unread(seen["carry"], seen["matrix"])
        count = len(seen) // 2
        reads, writes = (
            [seen[f"{side} {block + 1}"] for block in range(count)] for side in ("read", "write")
        )
        coupling = torch.full((count, count), torch.nan, dtype=reads[0].dtype, device=reads[0].tensor.device)
        for block, write in enumerate(writes):
            for later in range(block + 1, count):
                coupling[block, later] = _overlap(write, reads[later])
        return {"coupling": coupling.reshape(-1)}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        blocks = row.layout.outer_blocks
        coupling = np.broadcast_to(merged["coupling"], (1, blocks * blocks))
        return {
            "outer_unread_share": merged["unread"] / row.tokens["outer_read"],
            "write_read_coupling": coupling.reshape(blocks, blocks),
        }

    @staticmethod
    def _unread(carry: Activation, matrix: Activation) -> dict[str, Tensor]:
        if matrix.width >= carry.width:
            # All of it is read.
            return totals({"unread": torch.full_like(carry.norm, torch.nan)}, carry.counted)
        basis = torch.linalg.qr(matrix.tensor.to(carry.dtype)).Q
        read = Activation(carry.tensor.to(carry.dtype) @ basis, carry.dtype)
        return totals({"unread": 1 - read.square / carry.square}, carry.counted)


def _overlap(write: Activation, read: Activation) -> Tensor:
    """Return ||R W||_F / (||R||_F ||W||_F) from both transposed."""
    matrices = [each.tensor.to(each.dtype) for each in (write, read)]
    sizes = [torch.linalg.matrix_norm(matrix) for matrix in matrices]
    overlap: Tensor = torch.linalg.matrix_norm(matrices[0] @ matrices[1]) / (sizes[0] * sizes[1])
    return overlap
