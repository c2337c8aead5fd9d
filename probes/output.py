"""What a sublayer gives, before its design makes the write of it."""

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
class Output:
    """rms(o_l) where the write is something else: scaled, normed, gated, or spread over streams."""

    name: ClassVar[str] = "output"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("output",)
    quantities: ClassVar[tuple[str, ...]] = ("output_rms",)
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"output_square": "sum"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        output = seen["output"]
        return totals({"output_square": output.square}, output.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        entries = row.tokens["output"] * row.width["output"]
        return {"output_rms": np.sqrt(merged["output_square"] / entries)}
