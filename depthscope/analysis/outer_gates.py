"""Gates: how far the gates of an outer state's interfaces have moved from where they began."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.fit import FloatArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, no_wide_state
from depthscope.analysis.wording import significant, span

MOVED = 0.01
"""A gate that is this far from its first record has moved."""
SIDES = ("reading", "writing")


def moved_gates(began: FloatArray, now: FloatArray) -> int:
    """Return how many gates [block, side] are 0.01 or more from where they began."""
    # Gates are stored in single precision: 0.09 and 0.1 are 0.01 apart to a few parts in a million.
    return int(np.count_nonzero(np.abs(now - began) >= MOVED - 1e-6))


def _find(records: Records) -> list[Finding]:
    steps, newest = records.steps("interface_gate"), records.newest("interface_gate")
    began = records.at("interface_gate", int(steps[0])) if steps.size > 1 else None
    if newest is None or began is None:
        return []
    now, first = newest.newest, began.newest
    if not (np.isfinite(now).all() and np.isfinite(first).all()):
        return []
    moved = moved_gates(first, now)
    sides = ", ".join(
        f"{side} {_moved(_span(first[:, place]), _span(now[:, place]))}" for place, side in enumerate(SIDES)
    )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=(
                f"{moved} of {now.size} gates moved by {MOVED} or more between steps {steps[0]} and "
                f"{newest.newest_step}: {sides}."
            ),
            values={
                "moved": moved,
                "gates": int(now.size),
                "first_step": int(steps[0]),
                **{side: tuple(float(gate) for gate in now[:, place]) for place, side in enumerate(SIDES)},
            },
            page="outer",
            quantity="interface_gate",
            step=newest.newest_step,
            detail=(
                "Gates are sigma(alpha), one a block for reading and one for writing. The largest move is "
                f"{significant(float(np.abs(now - first).max()))}."
            ),
        )
    ]


def _moved(start: str, end: str) -> str:
    return f"stays near {end}" if start == end else f"{start} to {end}"


def _span(gates: FloatArray) -> str:
    return span(float(gates.min()), float(gates.max()))


RULE = Rule(
    kind="outer_gates",
    question="Have the gates of the outer state moved from where they began?",
    find=_find,
    needs=("interface_gate",),
    excludes=no_wide_state,
)
