"""The caption of the mixing figure: what a share is, what a row sums to, and where shares cancel."""

from __future__ import annotations

from collections.abc import Mapping

from depthscope.figures import Panel
from depthscope.quantities import QUANTITIES

_SHARES_ONLY = "They attribute this forward pass; only an intervention shows an effect."
_CANCELLATION = (
    "Bars: cancellation, the sum of the sizes of a read's contributions, from 1; past 2 single shares are large "
    "terms that cancel."
)


def shares_sentence(panel: Panel) -> str:
    """Return what is drawn: the quantity, its formula, over how many tokens, and what is taken off."""
    known = QUANTITIES[str(panel.data.attributes["quantity"])]
    what = f"{known.long_name[:1].upper()}{known.long_name[1:]}: «{known.formula}»"
    return f"{what}, {_sampled(panel, known.reduction)}{_mixing_view(panel)}."


def reading_sentences(panels: Mapping[str, Panel]) -> list[str]:
    """Return how the figure is read, and what it does not say."""
    return [_rows_sum(panels), _CANCELLATION, _SHARES_ONLY]


def _rows_sum(panels: Mapping[str, Panel]) -> str:
    """Say what a row of contributions sums to; coefficients have no sum of their own."""
    attributes = next(iter(panels.values())).data.attributes
    if attributes["share"] != "contribution":
        return ""
    return f"A row sums to {0 if attributes['mode'] == 'difference' else 1}."


def _sampled(panel: Panel, reduction: str) -> str:
    """Say of how many tokens a sample is, where all runs have the same number."""
    sizes = {array.attrs["sample_tokens"] for array in panel.data.arrays.values()}
    size = sizes.pop() if len(sizes) == 1 else ""
    return f"mean over a sample of {size} tokens" if isinstance(size, int) else reduction


def _mixing_view(panel: Panel) -> str:
    """Say what is taken off, and which weights were frozen."""
    if panel.data.attributes["mode"] != "difference":
        return ", mixing weights and norm scales frozen at their values"
    baseline = panel.data.names.get(panel.data.attributes["baseline"] or "", "the baseline")
    return f", minus that of {panel.data.attributes['reference'] or baseline}"
