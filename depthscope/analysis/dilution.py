"""Dilution: how the newest write's share of the next read falls over depth, in any design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray, log_positive
from depthscope.analysis.records import Records, Series
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import course, significant, span, times

SAMPLE = "slow/fresh_share"
"""The share as the mixing contributions hold it, of every sublayer in any design, over a sample of tokens."""
_QUARTERS = ("first_quarter", "last_quarter")


def quarter_means(fresh_share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of `fresh_share` [..., L] over the first and over the last quarter of the sublayers.

    A quarter is L/4 sublayers, rounded, at least one; entries that do not exist (NaN) are left out, and a
    quarter of nothing else is NaN.
    """
    size = max(1, round(fresh_share.shape[-1] / 4))
    return _mean(fresh_share[..., :size]), _mean(fresh_share[..., -size:])


def kind_exponents(fresh_share: FloatArray, kinds: Sequence[str], kind: str) -> FloatArray:
    """Return the slopes of log fresh_share [..., L] against log l over the sublayers of one kind, [...].

    -1 for equal uncorrelated writes on one stream (to first order). Shares that are not positive have no
    logarithm and are left out; NaN with fewer than three left.
    """
    chosen = np.array([name == kind for name in kinds])
    y = log_positive(fresh_share[..., chosen])
    x = np.where(np.isfinite(y), np.log(np.arange(1.0, len(kinds) + 1))[chosen], np.nan)
    x = x - _mean(x)[..., None]
    moment, spread = np.nansum(x * y, axis=-1), np.nansum(x * x, axis=-1)
    enough = (np.isfinite(y).sum(axis=-1) >= 3) & (spread > 0)
    return np.asarray(np.where(enough, moment / np.where(enough, spread, 1), np.nan))


@dataclass(frozen=True, kw_only=True)
class Dilution:
    """How the newest write's share of the next read changes over depth; NaN where not defined.

    `_range` holds the smallest and the largest value over the records handed in: a range, not an interval.
    """

    first_quarter: float
    last_quarter: float
    ratio: float
    """Mean over the last quarter of the sublayers divided by the mean over the first."""
    ratio_range: tuple[float, float]
    exponent_attention: float
    """Slope of log share against log l over the attention sublayers."""
    exponent_attention_range: tuple[float, float]
    exponent_mlp: float
    exponent_mlp_range: tuple[float, float]
    not_positive: int
    """Sublayers whose share is not positive: they have no place in the slopes."""
    records: int
    sampled: bool
    """Over the sample of tokens that mixing is taken of, and not over all."""


def dilution(fresh_share: FloatArray, kinds: Sequence[str], *, sampled: bool = False) -> Dilution | None:
    """Return the dilution of `fresh_share` [records, L] at its last record, ranges over all its records.

    None where a quarter of the sublayers has no value or the first quarter's mean is not positive.
    """
    early, late = quarter_means(fresh_share)
    first, last = float(early[-1]), float(late[-1])
    if not (np.isfinite(first) and np.isfinite(last) and first > 0):
        return None
    ratios = np.where(early > 0, late / np.where(early > 0, early, 1), np.nan)
    attention, mlp = (kind_exponents(fresh_share, kinds, kind) for kind in ("attention", "mlp"))
    return Dilution(
        first_quarter=first,
        last_quarter=last,
        ratio=last / first,
        ratio_range=_range(ratios),
        exponent_attention=float(attention[-1]),
        exponent_attention_range=_range(attention),
        exponent_mlp=float(mlp[-1]),
        exponent_mlp_range=_range(mlp),
        not_positive=int(np.count_nonzero(fresh_share[-1] <= 0)),
        records=len(fresh_share),
        sampled=sampled,
    )


def _range(series: FloatArray) -> tuple[float, float]:
    seen = series[np.isfinite(series)]
    return (float(seen.min()), float(seen.max())) if seen.size else (float("nan"), float("nan"))


def _mean(values: FloatArray) -> FloatArray:
    """Return the mean over the last axis of what is finite; NaN where nothing is."""
    seen = np.isfinite(values)
    count = seen.sum(axis=-1)
    total = np.where(seen, values, 0).sum(axis=-1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _of_all_layers(records: Records) -> tuple[Series, bool] | None:
    """Return the shares, and whether they are sampled: over all tokens where every sublayer has one so."""
    own, sample = records.tail("fresh_share"), records.tail(SAMPLE)
    if own is not None and (sample is None or np.isfinite(own.newest).all()):
        return own, records.run.stream_of("fresh_share") != "fast"
    return None if sample is None else (sample, True)


def _find(records: Records) -> list[Finding]:
    shown = _of_all_layers(records)
    if shown is None:
        return []
    shares, sampled = shown
    kinds = records.layout.layer_kinds
    found = dilution(shares.values, kinds, sampled=sampled)
    if found is None:
        return []
    sample = records.tail(SAMPLE)
    same = None if sample is None else dilution(sample.values, kinds, sampled=True)
    on_sample = {} if same is None else {f"sample_{key}": getattr(same, key) for key in _QUARTERS}
    verb = "falls" if found.last_quarter < found.first_quarter else "rises"
    slopes = [
        f"{significant(value)} over {kind} sublayers"
        for kind, value in (("attention", found.exponent_attention), ("MLP", found.exponent_mlp))
        if np.isfinite(value)
    ]
    detail = (
        f"Last over first quarter: {times(found.ratio)}, {span(*found.ratio_range)} over the last tenth of records. "
        + (f"Slope of log share against log l: {', '.join(slopes)}. " if slopes else "")
        + "Equal uncorrelated writes on one stream give 1/(l + 1)."
        + (" Over a sample of tokens, from the mixing contributions." if sampled else "")
    )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=(
                f"the newest write's share of the next read {course(verb, found.first_quarter, found.last_quarter)}, "
                "first to last quarter of depth."
            ),
            values=as_values(found) | on_sample,
            page="depth",
            quantity="fresh_share",
            step=shares.newest_step,
            detail=detail,
        )
    ]


RULE = Rule(
    kind="dilution",
    question="How does the newest write's share of the next read change over depth?",
    find=_find,
    needs=("fresh_share",),
)
