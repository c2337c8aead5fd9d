"""Typical-token gap: where a few large tokens, and not the typical one, set an rms."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding, Value
from depthscope.analysis.fit import FloatArray, log_positive
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import layers_words, significant, times

LIMIT = 0.3
"""In log units: an rms 1.35 times the size of the typical token."""
TENSORS = ("state", "write", "read")


def token_gap(rms: FloatArray, logrms: FloatArray) -> FloatArray:
    """Return log rms - logrms [L]: 0 where all tokens have one size, never below 0 but for rounding."""
    return log_positive(rms) - logrms


def _find(records: Records) -> list[Finding]:
    found: list[tuple[float, Finding]] = []
    for tensor in TENSORS:
        rms, logrms = records.newest(f"{tensor}_rms"), records.newest(f"{tensor}_logrms")
        if rms is None or logrms is None or rms.newest_step != logrms.newest_step:
            continue
        gap = token_gap(rms.newest, logrms.newest)
        wide = np.flatnonzero(gap > LIMIT)
        if wide.size == 0:
            continue
        worst = int(np.nanargmax(gap))
        values: dict[str, Value] = {
            "gap": float(gap[worst]),
            "layer": worst + 1,
            "layers": tuple(float(layer + 1) for layer in wide),
            "tensor": tensor,
        }
        finding = Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=(
                f"rms of the {tensor} is up to {times(np.exp(gap[worst]))} its typical token (sublayer {worst + 1}): "
                f"a few large tokens set it in {layers_words(list(wide + 1))}."
            ),
            values=values,
            page="depth",
            quantity=f"{tensor}_logrms",
            step=rms.newest_step,
            detail=f"log rms - mean log size is {significant(gap[worst])}; reported above {LIMIT}.",
        )
        found.append((float(gap[worst]), finding))
    return [max(found, key=lambda pair: pair[0])[1]] if found else []


RULE = Rule(
    kind="token_gap",
    question="Does an rms speak for the typical token?",
    find=_find,
    needs=("state_rms", "state_logrms"),
)
