"""The caption of the effects figure: what a cut is, on what it was measured, and how it goes with routing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from depthscope.analysis import RULE_IN_WORDS
from depthscope.figures import Panel, effect_pairs, paired_words, pairs_words

_EFFECT = (
    "Effect: mean loss with one source of one read cut, minus the loss as it is, in nats per token; positive where "
    "the cut hurts. Bars are 95 % t intervals over held-out batches."
)
_MODES = {
    "renormalise": "Renormalise: the other weights are scaled to sum to 1.",
    "zero": "Zero: the source is replaced by 0.",
    "mean": "Mean: the source is replaced by its mean over tokens.",
    "resample": "Resample: the source is replaced by its value in another batch.",
}
_AGREE = (
    "Where a mix feeds only an RMSNorm, zero and renormalise agree up to the norm's eps over the mean square of the "
    "read."
)


def effect_sentence(panel: Panel) -> str:
    """Return what an effect is, what stands in place of what is cut, and what the scatter leaves out."""
    arrays = panel.data.arrays.values()
    modes = dict.fromkeys(
        _MODES[str(array.attrs["mode"])] for array in arrays if array.attrs["mode"] in _MODES
    )
    far = f"Points: {next(map(pairs_words, arrays))}."
    agree = [_AGREE] if any(array.attrs["note"] for array in arrays) else []
    return " ".join(filter(None, [_EFFECT, *modes, *agree, far, RULE_IN_WORDS]))


def measured_sentences(panels: Mapping[str, Panel]) -> list[str]:
    """Return on what each run was measured, and the rank correlations of its effects."""
    (panel,) = panels.values()
    out = []
    for run, array in panel.data.arrays.items():
        pairs = effect_pairs(array, str(panel.data.attributes["against"]))
        both = {"weight": pairs.with_weight, "contribution": pairs.with_contribution}
        known = [f"{value:+.2f} with the {name}" for name, value in both.items() if np.isfinite(value)]
        ranks = (
            f"; rank correlation over the {pairs.effect.size} {pairs_words(array)}: {', '.join(known)}"
            if known
            else ""
        )
        out.append(f"{panel.data.names[run]}: {paired_words(array)}{ranks}.")
    return out
