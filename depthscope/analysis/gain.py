"""Gains above 10 or below 0.1: from read to write, and through the mixing of parallel streams.

Where a state is made of n streams, the write is that to all of them, n times as wide as the read: their norms have no
common measure, so nothing is said about their ratio.
"""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding
from depthscope.analysis.fit import FloatArray, IntArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import layers_words, significant

HIGH = 10.0
LOW = 0.1
GAINS = {
    "gain_forward": "forward gain of the stream mixing",
    "gain_backward": "backward gain of the stream mixing",
    "write_ratio": "write over read",
}


def beyond(gain: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the layers (from 1) of `gain` [L] above 10 and those below 0.1."""
    return np.flatnonzero(gain > HIGH) + 1, np.flatnonzero(gain < LOW) + 1


def _find(records: Records) -> list[Finding]:
    out = []
    for quantity, words in GAINS.items():
        if quantity == "write_ratio" and records.layout.streams:
            continue
        series = records.newest(quantity)
        if series is None:
            continue
        for layers, pick, limit in zip(
            beyond(series.newest),
            (np.nanargmax, np.nanargmin),
            (f"above {HIGH:.0f}", f"below {LOW}"),
            strict=True,
        ):
            if layers.size == 0:
                continue
            extreme = int(pick(series.newest))
            value = float(series.newest[extreme])
            where = (
                "" if layers.size == 1 else f", the furthest {significant(value)} at sublayer {extreme + 1}"
            )
            text = f"{words} is {limit} in {layers_words(list(layers))}{where}."
            if layers.size == 1:
                text = f"{words} is {significant(value)} in sublayer {extreme + 1}."
            out.append(
                Finding(
                    kind=RULE.kind,
                    run_name=records.name,
                    text=text,
                    values={
                        "layers": tuple(float(layer) for layer in layers),
                        "layer": extreme + 1,
                        "gain": value,
                    },
                    page="depth",
                    quantity=quantity,
                    step=series.newest_step,
                    detail=f"Reported above {HIGH:.0f} and below {LOW}.",
                )
            )
    return out


RULE = Rule(
    kind="gain",
    question="Is a gain above 10 or below 0.1?",
    find=_find,
    needs=("write_ratio",),
)
