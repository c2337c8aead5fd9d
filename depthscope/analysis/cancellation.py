"""Cancellation: reads whose contributions are large terms that take each other away."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import significant, span, target_words

CANCELS = 2.0
"""Of the sum of the sizes of the contributions; where all are positive it is 1."""


def _find(records: Records) -> list[Finding]:
    found = records.newest("mixing_cancellation")
    if found is None:
        return []
    size, step = found.newest, found.newest_step
    past = np.flatnonzero(size > CANCELS)
    if past.size == 0:
        return []
    worst = int(past[np.argmax(size[past])])
    place = target_words(records.layout.target_names[worst], worst + 1)
    if past.size == 1:
        text = f"the shares of {place} are large terms that cancel: their sizes sum to {significant(size[worst])}"
    else:
        ends = span(float(size[past].min()), float(size[past].max()))
        taken = int(np.isfinite(size).sum())
        text = (
            f"the shares of {past.size} of {taken} reads are large terms that cancel: their sizes sum to {ends}, "
            f"most in {place}"
        )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=f"{text}, at step {step}.",
            values={
                "targets": tuple(float(target + 1) for target in past),
                "largest": float(size[worst]),
                "largest_target": worst + 1,
            },
            page="mixing",
            quantity="mixing_cancellation",
            step=step,
            detail=(
                f"The contributions of a read sum to 1; reported where their sizes sum to more than {CANCELS:g}. "
                "A share there says little by itself."
            ),
        )
    ]


RULE = Rule(
    kind="cancellation",
    question="Are the contributions to a read large terms that cancel?",
    find=_find,
    needs=("mixing_cancellation",),
)
