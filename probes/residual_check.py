"""Does h + f give s, and does the mix of the sources give the read? Checked on real steps, told on the host."""

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
class ResidualCheck:
    """||s - h - f|| / ||s|| at additive sublayers: above the tolerance, the record of the layer is withdrawn."""

    name: ClassVar[str] = "residual_check"
    stream: ClassVar[str] = "fast"
    sites: ClassVar[tuple[SiteKind, ...]] = ("residual",)
    quantities: ClassVar[tuple[str, ...]] = ()
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"gap_square": "sum", "whole_square": "sum"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        state = seen["state"]
        gap = state.tensor.float() - seen["read"].tensor.float() - seen["write"].tensor.float()
        rest = Activation(gap, state.dtype)
        return totals({"gap_square": rest.square, "whole_square": state.square}, state.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        return {"residual_gap": np.sqrt(merged["gap_square"] / merged["whole_square"])}


@dataclass(frozen=True, kw_only=True)
class MixCheck:
    """||h - sum_i alpha_i v_i|| / ||h|| at depth mixers: above the tolerance, the map is withdrawn."""

    name: ClassVar[str] = "mix_check"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("mixer",)
    quantities: ClassVar[tuple[str, ...]] = ()
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"mix_gap_square": "sum", "mix_square": "sum"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        read, weights = seen["read"], seen["weights"].tensor.float()
        gap = read.tensor.float().reshape(-1, read.width)
        for place in range(len(site.columns)):
            source = seen[f"source {place}"].tensor.float().reshape(-1, read.width)
            gap = gap - weights[place][:, None] * source
        rest = Activation(gap, read.dtype)
        return totals({"mix_gap_square": rest.square, "mix_square": read.square}, read.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        return {"mix_gap": np.sqrt(merged["mix_gap_square"] / merged["mix_square"])}
