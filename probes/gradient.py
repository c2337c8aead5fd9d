"""Gradients of the loss at writes and reads, per token."""

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
class Gradient:
    """N rms(dL/df_l) and N rms(dL/dh_l), unscaled."""

    name: ClassVar[str] = "gradient"
    stream: ClassVar[str] = "fast"
    sites: ClassVar[tuple[SiteKind, ...]] = ("write_gradient", "read_gradient")
    quantities: ClassVar[tuple[str, ...]] = ("grad_write_rms", "grad_read_rms")
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {"write_gradient_square": "sum", "read_gradient_square": "sum"}
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        gradient = seen["gradient"]
        return totals({f"{site.kind}_square": gradient.square}, gradient.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        values = {}
        for tensor in ("write", "read"):
            kind = f"{tensor}_gradient"
            mean_square = merged[f"{kind}_square"] / (row.tokens[kind] * row.width[kind])
            values[f"grad_{tensor}_rms"] = row.loss_tokens * np.sqrt(mean_square) / row.loss_scale
        return values
