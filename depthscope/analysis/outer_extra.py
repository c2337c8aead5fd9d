"""Extra dimensions: how much of a wide state's energy lies beyond the width of the sublayers."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, no_wide_state
from depthscope.analysis.wording import significant

SMALL = 0.5
"""Above this gate the first d dimensions are no longer those that the truncation reads."""


def _find(records: Records) -> list[Finding]:
    share = records.newest("outer_extra_share")
    gates = None if share is None else records.at("interface_gate", share.newest_step)
    if share is None or gates is None:
        return []
    values, largest = share.newest, float(np.max(gates.newest))
    if not np.isfinite(values).all() or not largest < SMALL:
        return []
    low, high = (significant(100 * float(end)) for end in (values.min(), values.max()))
    part = low if low == high else f"{low}–{high}"
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=(
                f"{part} % of the outer energy before the norm lies in the extra dimensions at step "
                f"{share.newest_step}, every gate below {SMALL}."
            ),
            values={"shares": tuple(float(value) for value in values), "largest_gate": largest},
            page="outer",
            quantity="outer_extra_share",
            step=share.newest_step,
            detail=(
                f"Extra: outside the first d dimensions of the wide state, the range over {values.size} blocks. Said "
                f"only while every gate is below {SMALL}; the largest is {significant(largest)}."
            ),
        )
    ]


RULE = Rule(
    kind="outer_extra",
    question="How much of the outer energy lies in the extra dimensions?",
    find=_find,
    needs=("outer_extra_share", "interface_gate"),
    excludes=no_wide_state,
)
