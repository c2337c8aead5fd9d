"""The state of post-norm designs as it was before the norm that gives it its size."""

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
class PrenormState:
    """rms of the stream after the write and in front of its norm."""

    name: ClassVar[str] = "prenorm_state"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("state_prenorm",)
    quantities: ClassVar[tuple[str, ...]] = ("state_prenorm_rms",)
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"prenorm_square": "sum"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        state = seen["state_prenorm"]
        return totals({"prenorm_square": state.square}, state.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        entries = row.tokens["state_prenorm"] * row.width["state_prenorm"]
        return {"state_prenorm_rms": np.sqrt(merged["prenorm_square"] / entries)}
