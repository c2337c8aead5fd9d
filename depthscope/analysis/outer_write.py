"""Outer write: how much energy a block writes to the outer state against what the state carries."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.fit import FloatArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, no_wide_state
from depthscope.analysis.wording import span


def write_over_carry(write: FloatArray, carry: FloatArray) -> FloatArray:
    """Return the energy of the outer write over that of the carry [block]; NaN where the carry has none."""
    return np.divide(write, carry, out=np.full_like(write, np.nan), where=carry > 0)


def _find(records: Records) -> list[Finding]:
    write = records.newest("outer_write_energy")
    carry = None if write is None else records.at("outer_carry_energy", write.newest_step)
    if write is None or carry is None:
        return []
    ratios = write_over_carry(write.newest, carry.newest)
    if not np.all(np.isfinite(ratios)):
        return []
    above = int(np.count_nonzero(ratios > 1))
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=(
                f"the outer write has more energy than the carry (ratio above 1) in {above} of {ratios.size} blocks "
                f"at step {write.newest_step}: {span(float(ratios.min()), float(ratios.max()))}×."
            ),
            values={"ratios": tuple(float(ratio) for ratio in ratios), "above": above, "blocks": ratios.size},
            page="outer",
            quantity="outer_write_energy",
            step=write.newest_step,
            detail=(
                "Energy of W_b Phi_b over that of h_{b-1}, each block. The boundary norm sets the carry from block "
                "2 on; block 1 carries the embedding."
            ),
        )
    ]


RULE = Rule(
    kind="outer_write",
    question="Is the outer write larger than what the outer state carries?",
    find=_find,
    needs=("outer_write_energy", "outer_carry_energy"),
    excludes=no_wide_state,
)
