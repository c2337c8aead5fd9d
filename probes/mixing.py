"""What every read is made of, from the replay of a token sample."""

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
class Mixing:
    """Shares and coefficients over (target, origin), and what the replay leaves unexplained.

    At a target of a replay, `seen` holds ``read`` and ``gap`` [batch, time, d], ``tolerance`` of the gap [1, 1], and
    ``share``, ``coefficient`` and ``parallel`` [origins, tokens], the site's columns in order
    (`depthscope.mixing.TargetShares`).
    """

    name: ClassVar[str] = "mixing"
    stream: ClassVar[str] = "slow"
    sites: ClassVar[tuple[SiteKind, ...]] = ("replay",)
    quantities: ClassVar[tuple[str, ...]] = (
        "mixing_contribution",
        "mixing_coefficient",
        "mixing_cancellation",
    )
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType(
        {
            "mixing_share": "sum",
            "mixing_factor": "sum",
            "mixing_parallel": "min",
            "mixing_gap_square": "sum",
            "mixing_read_square": "sum",
            "mixing_tolerance": "max",
        }
    )

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        read = seen["read"]
        gap = Activation(seen["gap"].tensor, read.dtype)
        parallel = seen["parallel"].tensor
        if read.counted is not None:
            parallel = torch.where(read.counted, parallel, 1)
        return {
            "mixing_share": sum_over_tokens(seen["share"].tensor, read.counted),
            "mixing_factor": sum_over_tokens(seen["coefficient"].tensor, read.counted),
            "mixing_parallel": parallel.amin(-1),
            "mixing_tolerance": seen["tolerance"].tensor.reshape(()),
        } | totals({"mixing_gap_square": gap.square, "mixing_read_square": read.square}, read.counted)

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        tokens = row.tokens["replay"][:, None]
        contribution = merged["mixing_share"] / tokens
        coefficient = np.where(merged["mixing_parallel"] > 0, merged["mixing_factor"] / tokens, np.nan)
        known = ~np.isnan(contribution).all(axis=1)
        return {
            "mixing_contribution": contribution,
            "mixing_coefficient": coefficient,
            "mixing_cancellation": np.where(known, np.nansum(np.abs(contribution), axis=1), np.nan),
            "mixing_gap": np.sqrt(merged["mixing_gap_square"] / merged["mixing_read_square"]),
            "mixing_tolerance": merged["mixing_tolerance"],
        }
