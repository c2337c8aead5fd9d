"""Non-finite values: NaN or infinity in the states, the loss or the gradient norm."""

from __future__ import annotations

import numpy as np

from depthscope.analysis.finding import Finding, Value
from depthscope.analysis.fit import FloatArray, IntArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import layers_words
from depthscope.quantities import quantity

SCALARS = ("loss", "grad_norm")


def broken_layers(nonfinite: FloatArray) -> IntArray:
    """Return the layers (from 1) of one record of `nonfinite` [L] with a count above 0."""
    return np.flatnonzero(nonfinite > 0) + 1


def first_broken_scalar(values: FloatArray, skipped: FloatArray | None = None) -> int:
    """Return the first record of `values` [records] that is not finite because training broke; -1 for none.

    An infinity counts unless that optimizer step was `skipped` for it. A NaN may also mean "not given", so it
    counts only where finite values came before and none comes after.
    """
    counted = np.isinf(values) if skipped is None else np.isinf(values) & ~(skipped == 1)
    finite = np.flatnonzero(np.isfinite(values))
    if finite.size and np.isnan(values[finite[-1] + 1 :]).any():
        counted = counted.copy()
        counted[finite[-1] + 1 :] |= np.isnan(values[finite[-1] + 1 :])
    broken = np.flatnonzero(counted)
    return int(broken[0]) if broken.size else -1


def _find(records: Records) -> list[Finding]:
    out = []
    first = records.first_above_zero("nonfinite")
    newest = records.newest("nonfinite")
    if first is not None and newest is not None:
        layers, step = broken_layers(first.newest), first.newest_step
        stays = broken_layers(newest.newest).size > 0 and newest.newest_step > step
        values: dict[str, Value] = {"first_step": step, "layers": tuple(map(float, layers)), "still": stays}
        until = f", still so at step {newest.newest_step}" if stays else ""
        text = f"NaN or infinity in the state of {layers_words(list(layers))} at step {step}{until}."
        out.append(_finding(records, text, values, "nonfinite", step))
    skipped = records.whole("skipped")
    for name in SCALARS:
        series = records.whole(name)
        if series is None or name in records.missing:
            continue
        same = skipped is not None and np.array_equal(skipped.steps, series.steps)
        broken = first_broken_scalar(series.values, skipped.values if skipped is not None and same else None)
        if broken >= 0:
            step = int(series.steps[broken])
            label = quantity(name).label.lower()
            out.append(
                _finding(
                    records, f"{label} is NaN or infinite at step {step}.", {"first_step": step}, name, step
                )
            )
    return out


def _finding(records: Records, text: str, values: dict[str, Value], name: str, step: int) -> Finding:
    return Finding(
        kind=RULE.kind,
        run_name=records.name,
        text=text,
        values=values,
        page="depth",
        quantity=name,
        step=step,
        severity="warning",
    )


RULE = Rule(
    kind="nonfinite",
    question="Did anything become NaN or infinite?",
    find=_find,
    needs=("nonfinite",),
)
