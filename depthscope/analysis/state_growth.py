"""State growth: how fast the one accumulated stream of a design grows over depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.depth import ends
from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray, log_positive, slope
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, one_stream
from depthscope.analysis.wording import SMALL, percent, significant, times
from depthscope.quantities import DepthLayout


@dataclass(frozen=True, kw_only=True)
class StateGrowth:
    """Growth of the state over depth; NaN where a number is not defined."""

    ratio: float
    """State rms after the last transformer block over that after the first."""
    exponent: float
    """Slope of log state rms against log(l + 1), the first transformer block left out."""
    per_doubling: float
    """The factor that `exponent` gives for twice the depth."""
    first: float
    last: float


def state_growth(state_rms: FloatArray, transformer_block: Sequence[int]) -> StateGrowth | None:
    """Return the growth of `state_rms` [L], the rms of the state after each write.

    The slope leaves out the first transformer block, whose size the embedding sets, and is NaN with fewer
    than two sublayers left. None with fewer than two transformer blocks or an rms that is not a positive
    number.
    """
    after = ends(transformer_block)
    if after.size < 2 or not np.all(np.isfinite(state_rms)) or state_rms.min() <= 0:
        return None
    layer = np.arange(1, state_rms.size + 1)
    later = layer > after[0] + 1
    exponent = slope(np.log(layer + 1.0)[later], log_positive(state_rms)[later])
    return StateGrowth(
        ratio=float(state_rms[after[-1]] / state_rms[after[0]]),
        exponent=exponent,
        per_doubling=2.0**exponent,
        first=float(state_rms[after[0]]),
        last=float(state_rms[after[-1]]),
    )


def growth_words(ratio: float) -> str:
    """Say how the state changes from the first to the last transformer block."""
    over = "from first to last transformer block"
    if abs(ratio - 1) < SMALL:
        return f"state rms changes by {percent(abs(ratio - 1))} {over}."
    return f"state rms {'grows' if ratio > 1 else 'falls to'} {times(ratio)} {over}."


def _find(records: Records) -> list[Finding]:
    state = records.newest("state_rms")
    if state is None:
        return []
    growth = state_growth(state.newest, records.layout.transformer_block)
    if growth is None:
        return []
    detail = "Too few sublayers after the first transformer block for a slope."
    if np.isfinite(growth.exponent):
        detail = (
            f"Slope of log state rms against log(l + 1): {significant(growth.exponent)}, so "
            f"{times(growth.per_doubling)} for twice the depth. The first transformer block is left out: the "
            "embedding's size sets it."
        )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=growth_words(growth.ratio),
            values=as_values(growth),
            page="depth",
            quantity="state_rms",
            step=state.newest_step,
            detail=detail,
        )
    ]


def _excludes(layout: DepthLayout) -> str:
    return "" if one_stream(layout) else "the design has no single accumulated stream"


RULE = Rule(
    kind="state_growth",
    question="How much does the accumulated stream grow over depth?",
    find=_find,
    needs=("state_rms",),
    excludes=_excludes,
)
