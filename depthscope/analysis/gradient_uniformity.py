"""Gradient uniformity: how much the gradient at the state varies over the transformer blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from depthscope.analysis.depth import ends
from depthscope.analysis.finding import Finding, Value
from depthscope.analysis.fit import FloatArray, largest_over_smallest, variation
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import significant, times


def uniformity(gradient: FloatArray, transformer_block: Sequence[int]) -> tuple[float, float] | None:
    """Return (max / min, population coefficient of variation) over the last state of each transformer block.

    `gradient` [L] is the gradient at each state, raw or times the write. None where a value is missing, not
    positive, or there are fewer than two transformer blocks.
    """
    values = gradient[ends(transformer_block)]
    ratio = largest_over_smallest(values)
    return None if values.size < 2 or np.isnan(ratio) else (ratio, variation(values))


def _find(records: Records) -> list[Finding]:
    gradient = records.newest("grad_state_rms")
    if gradient is None:
        return []
    blocks = records.layout.transformer_block
    raw = uniformity(gradient.newest, blocks)
    if raw is None:
        return []
    values: dict[str, Value] = {"ratio": raw[0], "variation": raw[1]}
    relative = records.newest("grad_relative")
    scaled = None if relative is None else uniformity(relative.newest, blocks)
    values |= {"relative_ratio": scaled and scaled[0], "relative_variation": scaled and scaled[1]}
    text = f"gradient at the state varies {times(raw[0])} over depth (CV {significant(raw[1])})"
    if scaled is None:
        text += "; without gradient times write it is not for comparing designs."
    else:
        text += f", gradient times write {times(scaled[0])} (CV {significant(scaled[1])})."
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=text,
            values=values,
            page="depth",
            quantity="grad_state_rms",
            step=gradient.newest_step,
            detail=(
                "Largest over smallest, and coefficient of variation (CV, standard deviation over mean), at the last "
                "state of each transformer block. A design that rescales its states rescales the raw gradient; gradient times write does "
                "not change with it and is the one to compare across designs."
            ),
        )
    ]


RULE = Rule(
    kind="gradient_uniformity",
    question="How evenly does the gradient spread over depth?",
    find=_find,
    needs=("grad_state_rms",),
)
