"""Massive activations: entries of the full stream a thousand times the median one."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.fit import BoolArray, FloatArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, one_stream
from depthscope.analysis.wording import layers_words, significant
from depthscope.quantities import DepthLayout

ABSOLUTE = 100.0
OVER_MEDIAN = 1000.0


def massive(abs_max: FloatArray, abs_median: FloatArray) -> BoolArray:
    """Return where abs_max [L] exceeds both 100 and 1,000 times abs_median [L]."""
    return (abs_max > ABSOLUTE) & (abs_max > OVER_MEDIAN * abs_median)


def _find(records: Records) -> list[Finding]:
    median = records.newest("abs_median")
    if median is None:
        return []
    largest = records.at("abs_max", median.newest_step)
    if largest is None:
        return []
    layers = np.flatnonzero(massive(largest.newest, median.newest)) + 1
    if layers.size == 0:
        return []
    top = int(np.nanargmax(largest.newest))
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=(
                f"massive activations in {layers_words(list(layers))}: up to "
                f"{significant(largest.newest[top], 3)} at sublayer {top + 1}, more than 1000 times the median entry."
            ),
            values={
                "layers": tuple(float(layer) for layer in layers),
                "layer": top + 1,
                "abs_max": float(largest.newest[top]),
                "abs_median": float(median.newest[top]),
            },
            page="depth",
            quantity="abs_max",
            step=median.newest_step,
            detail="Largest entry of the state above 100 and above 1,000 times the median absolute entry.",
        )
    ]


def _excludes(layout: DepthLayout) -> str:
    return "" if one_stream(layout) else "partial sums and mixed states are no full stream"


RULE = Rule(
    kind="massive_activation",
    question="Does the stream hold massive activations?",
    find=_find,
    needs=("abs_median", "abs_max"),
    excludes=_excludes,
)
