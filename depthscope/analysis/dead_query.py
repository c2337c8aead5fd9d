"""Dead queries: depth mixers whose query does not train."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.fit import BoolArray, FloatArray
from depthscope.analysis.records import Records, tenth
from depthscope.analysis.rule import Rule
from depthscope.analysis.skip_path import no_mixers
from depthscope.analysis.wording import target_words

UNMOVED = 1e-4
AFTER = 0.1
"""Share of the planned steps after which a query must have moved."""


def without_gradient(gradient: FloatArray) -> BoolArray:
    """Return, for mixer gradients [records, layer], where they are exactly 0 at every record."""
    return np.asarray(np.all(gradient == 0, axis=0), dtype=np.bool_)


def unmoved(query_norm: FloatArray, tail: int) -> BoolArray:
    """Return, for query norms [records, target], where the last `tail` stay within 1e-4 of the first record."""
    still = np.abs(query_norm[-tail:] - query_norm[0]) < UNMOVED
    return np.asarray(np.all(still, axis=0), dtype=np.bool_)


def trained_long_enough(step: int, last_step: int, planned: object) -> bool:
    """Return whether `step` lies past 10 % of the steps: of the planned number if known, else of those recorded."""
    total = planned if isinstance(planned, int | float) and planned > 0 else last_step
    return step > 0 and step >= AFTER * total


def _find(records: Records) -> list[Finding]:
    layout = records.layout
    several = np.array([len(columns) > 1 for columns in layout.sources])
    dead: dict[int, str] = {}
    step = None
    norms = records.whole("query_norm")
    if norms is not None and norms.steps.size > 1:
        step = norms.newest_step
        if trained_long_enough(step, records.last_step or step, records.config.get("steps")):
            still = np.flatnonzero(unmoved(norms.values, tenth(norms.steps.size)) & several)
            dead |= {int(target): "unmoved" for target in still}
    gradients = records.tail("mixer_grad_norm")
    if gradients is not None:
        step = gradients.newest_step
        none = np.flatnonzero(without_gradient(gradients.values) & several[: layout.layers])
        dead |= {int(target): "no gradient" for target in none}
    if not dead or step is None:
        return []
    targets = sorted(dead)
    without = sum(reason == "no gradient" for reason in dead.values())
    who = (
        target_words(layout.target_names[targets[0]], targets[0] + 1)
        if len(targets) == 1
        else f"{len(targets)} of {int(several.sum())} mixers"
    )
    why = "get no gradient" if without == len(targets) else "stay at their initial length"
    if len(targets) == 1:
        text = f"the depth query of {who} {'gets no gradient' if without else 'stays at its initial length'}."
    else:
        text = f"the depth queries of {who} {why if without in (0, len(targets)) else 'do not train'}."
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=text,
            values={
                "targets": tuple(float(target + 1) for target in targets),
                "target_names": tuple(layout.target_names[target] for target in targets),
                "without_gradient": without,
            },
            page="attention",
            quantity="mixer_grad_norm" if without else "query_norm",
            step=step,
            severity="warning",
            detail=(
                "Mixers of two or more sources whose gradient is exactly 0 over the last tenth of records, or "
                "whose query norm is within 1e-4 of its first value after 10 % of the steps."
            ),
        )
    ]


RULE = Rule(
    kind="dead_query",
    question="Does every depth query train?",
    find=_find,
    needs=("query_norm",),
    excludes=no_mixers,
)
