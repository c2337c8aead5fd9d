"""How much of the next read is the newest write: the one dilution number that means the same in every design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind, totals


@dataclass(frozen=True, kw_only=True)
class FreshShare:
    """mean_t <c, h'> / ||h'||^2 with h' the next read and c the part of it that is f.

    On one stream h' = h + f and c = f. Behind a depth mixer c = alpha f, with alpha the weight of the source that
    holds f.
    """

    name: ClassVar[str] = "fresh_share"
    stream: ClassVar[str] = "fast"
    sites: ClassVar[tuple[SiteKind, ...]] = ("write", "mixed_write")
    quantities: ClassVar[tuple[str, ...]] = ("fresh_share",)
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"stream_share": "sum", "mixed_share": "sum"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        write = seen["write"]
        if site.kind == "mixed_write":
            read = seen["next_read"]
            weight = seen["weight"].tensor.reshape(-1)
            return totals({"mixed_share": weight * write.dot(read) / read.square}, read.counted)
        if not site.fresh or "read" not in seen:
            return {}
        read = seen["read"]
        newest = write.dot(read) + write.square
        # |h + f|^2 = |h|^2 + 2 <h, f> + |f|^2, without a pass over h + f.
        share = newest / (read.square + write.dot(read) + newest)
        return totals({"stream_share": share}, write.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        stream = merged["stream_share"] / row.tokens["write"]
        mixed = merged["mixed_share"] / row.tokens["mixed_write"]
        return {"fresh_share": np.where(row.tokens["mixed_write"] > 0, mixed, stream)}
