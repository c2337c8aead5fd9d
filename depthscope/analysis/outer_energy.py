"""Outer energy: whether what reaches the boundary norms grows from block to block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray, largest_over_smallest, log_positive, slope
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, no_wide_state
from depthscope.analysis.wording import significant, span, times

NARROW = 2.0
"""Largest over smallest up to which the sentence says `stays within`."""


@dataclass(frozen=True, kw_only=True)
class OuterEnergy:
    """Energy before the boundary norm from block 2 on: block 1 carries the embedding, which no norm has set."""

    first: float
    last: float
    low: float
    high: float
    slope: float
    """Of the log energy against the block number."""
    blocks: int


def outer_energy(energy: FloatArray) -> OuterEnergy | None:
    """Return how `energy` [block], one record, changes from block 2 to the last.

    None with fewer than three blocks or an energy that is not a positive number.
    """
    later = energy[1:]
    if later.size < 2 or np.isnan(largest_over_smallest(later)):
        return None
    return OuterEnergy(
        first=float(later[0]),
        last=float(later[-1]),
        low=float(later.min()),
        high=float(later.max()),
        slope=slope(np.arange(2.0, energy.size + 1), log_positive(later)),
        blocks=int(energy.size),
    )


def _find(records: Records) -> list[Finding]:
    energy = records.newest("outer_energy")
    found = None if energy is None else outer_energy(energy.newest)
    if energy is None or found is None:
        return []
    at = f"at step {energy.newest_step}"
    text = (
        f"outer energy before the norm stays within {span(found.low, found.high)} from block 2 on {at}, at most "
        "twofold."
        if found.high <= NARROW * found.low
        else f"outer energy before the norm goes from {significant(found.first)} in block 2 to "
        f"{significant(found.last)} in block {found.blocks} {at}, within {span(found.low, found.high)}, more than "
        "twofold."
    )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=text,
            values=as_values(found),
            page="outer",
            quantity="outer_energy",
            step=energy.newest_step,
            detail=(
                f"Slope of log energy against the block number: {significant(found.slope)}, "
                f"{times(np.exp(found.slope))} a block. Block 1 is left out: no norm has set the embedding that it "
                "carries. After the norm the energy is constant by construction."
            ),
        )
    ]


RULE = Rule(
    kind="outer_energy",
    question="Does the outer energy before the norm grow from block to block?",
    find=_find,
    needs=("outer_energy",),
    excludes=no_wide_state,
)
