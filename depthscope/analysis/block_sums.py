"""Boundedness: whether the states at the ends of residual blocks grow from block to block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.depth import ends
from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray, largest_over_smallest, log_positive, slope
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import significant, span, times
from depthscope.quantities import DepthLayout

NARROW = 2.0
"""Up to this largest over smallest the sentence says `stays within`; it only chooses the words."""


@dataclass(frozen=True, kw_only=True)
class BlockSums:
    """The states b_n at the ends of residual blocks n = 1..N."""

    low: float
    high: float
    first: float
    last: float
    slope: float
    """Of log rms(b_n) against n."""
    block_rms: tuple[float, ...]


def block_sums(state_rms: FloatArray, residual_block: Sequence[int]) -> BlockSums | None:
    """Return how rms(b_n), the state [L] after the last sublayer of block n, changes with n.

    None with fewer than two blocks or an rms that is not a positive number.
    """
    sums = state_rms[ends(residual_block)]
    if sums.size < 2 or np.isnan(largest_over_smallest(sums)):
        return None
    return BlockSums(
        low=float(sums.min()),
        high=float(sums.max()),
        first=float(sums[0]),
        last=float(sums[-1]),
        slope=slope(np.arange(1.0, sums.size + 1), log_positive(sums)),
        block_rms=tuple(float(value) for value in sums),
    )


def _find(records: Records) -> list[Finding]:
    state = records.newest("state_rms")
    if state is None:
        return []
    sums = block_sums(state.newest, records.layout.residual_block)
    if sums is None:
        return []
    what = "its inner state at block ends" if records.layout.outer_blocks else "its block sums"
    text = (
        f"rms of {what} stays within {span(sums.low, sums.high)}."
        if sums.high <= NARROW * sums.low
        else f"rms of {what} goes from {significant(sums.first)} in the first block to "
        f"{significant(sums.last)} in the last, within {span(sums.low, sums.high)}."
    )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=text,
            values=as_values(sums),
            page="depth",
            quantity="state_rms",
            step=state.newest_step,
            detail=(
                f"Slope of log rms against the block number: {significant(sums.slope)}, "
                f"{times(np.exp(sums.slope))} a block."
            ),
        )
    ]


def _excludes(layout: DepthLayout) -> str:
    blocks = set(layout.residual_block)
    return "" if 0 not in blocks and len(blocks) > 1 else "the design has no residual blocks"


RULE = Rule(
    kind="block_sums",
    question="Do the states at block ends grow from block to block?",
    find=_find,
    needs=("state_rms",),
    excludes=_excludes,
)
