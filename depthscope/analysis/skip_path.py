"""Skip paths: distant sources that a depth mixer weights well above uniform, record after record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray, IntArray
from depthscope.analysis.records import Records, tenth
from depthscope.analysis.rule import Rule
from depthscope.analysis.wording import percent, records_words, significant, source_words, target_words
from depthscope.quantities import DepthLayout

LEAST_DISTANCE = 2
"""1 is the newest source that the target can read."""
LEAST_SOURCES = 4
STEADY = 0.9
"""Share of the records that must lie above the threshold."""
WEIGHTS_ONLY = "Weights describe routing; only an intervention shows an effect."


@dataclass(frozen=True, kw_only=True)
class SkipPath:
    """One (target, source) pair that meets the criteria."""

    target: int
    """Layer counted from 1; L + 1 is the final read."""
    target_name: str
    source: int
    """Column of the source axis, from 0."""
    source_name: str
    distance: int
    n_sources: int
    weight: float
    """Mean over the last tenth of records."""
    times_uniform: float
    contribution: float
    """Mean over the same records; NaN where it is not recorded."""
    last_weight: float
    """At the last record alone: what the maps show at that step."""
    last_contribution: float
    records: int
    """How many records the last tenth is."""
    weight_only: bool
    """|contribution| below 1 / (2 n_sources)."""
    above: float
    """Share of those records at or above the threshold."""
    first_step: int
    """First record at or above the threshold from which on at least 90 % of the records are."""
    cadence: int
    """Steps between records: the uncertainty of `first_step`."""


def threshold(n_sources: int) -> float:
    """Return the weight that a skip path must reach: twice uniform, at least 0.1."""
    return max(2 / n_sources, 0.1)


def candidates(sources: Sequence[Sequence[int]]) -> list[tuple[int, int, int, int]]:
    """Return (target from 0, source column, distance, n_sources) of every pair far enough to be a skip path.

    `sources` holds, for each target, the columns it can read; the highest column is the newest source.
    """
    return [
        (target, column, distance, len(columns))
        for target, columns in enumerate(sources)
        if len(columns) >= LEAST_SOURCES
        for distance, column in enumerate(sorted(columns, reverse=True), start=1)
        if distance >= LEAST_DISTANCE
    ]


def is_skip_path(weights: FloatArray, n_sources: int) -> bool:
    """Return whether a weight's series over the last tenth of records [records] meets the criteria.

    Its mean reaches max(2 / n_sources, 0.1) and at least 90 % of the records do. No standard error enters:
    records are autocorrelated.
    """
    least = threshold(n_sources)
    return bool(weights.size and weights.mean() >= least and np.mean(weights >= least) >= STEADY)


def crossed_and_stayed(weights: FloatArray, least: float) -> int:
    """Return the first record at or above `least` from which on at least 90 % of the records are; -1 for none."""
    above = weights >= least
    share = np.cumsum(above[::-1])[::-1] / np.arange(above.size, 0, -1)
    stays = np.flatnonzero(above & (share >= STEADY))
    return int(stays[0]) if stays.size else -1


def find_paths(weight: FloatArray, layout: DepthLayout) -> list[tuple[int, int, int, int]]:
    """Return the `candidates` whose `weight` [records, target, source], the last tenth of records, meets them."""
    return [
        (target, source, distance, n_sources)
        for target, source, distance, n_sources in candidates(layout.sources)
        if is_skip_path(weight[:, target, source], n_sources)
    ]


def describe_path(
    pair: tuple[int, int, int, int],
    steps: IntArray,
    weight: FloatArray,
    contribution: FloatArray | None,
    layout: DepthLayout,
) -> SkipPath:
    """Return the numbers of one path from all its records: `weight` and `contribution` [records] at `steps`."""
    target, source, distance, n_sources = pair
    least, tail = threshold(n_sources), tenth(steps.size)
    late = weight[-tail:]
    held = float("nan") if contribution is None else float(contribution[-tail:].mean())
    return SkipPath(
        target=target + 1,
        target_name=layout.target_names[target],
        source=source,
        source_name=layout.source_names[source],
        distance=distance,
        n_sources=n_sources,
        weight=float(late.mean()),
        times_uniform=float(late.mean() * n_sources),
        contribution=held,
        last_weight=float(weight[-1]),
        last_contribution=float("nan") if contribution is None else float(contribution[-1]),
        records=tail,
        weight_only=abs(held) < 1 / (2 * n_sources),
        above=float(np.mean(late >= least)),
        first_step=int(steps[crossed_and_stayed(weight, least)]),
        cadence=int(np.median(np.diff(steps))) if steps.size > 1 else 0,
    )


def paths_of(records: Records) -> list[SkipPath]:
    """Return the skip paths of a run, largest weight first; empty without depth attention."""
    tail, layout = records.tail("depth_attention"), records.layout
    pairs = [] if tail is None else find_paths(tail.values, layout)
    if not pairs:
        return []
    index = [pair[:2] for pair in pairs]
    weight, held = records.entries("depth_attention", index), records.entries("depth_contribution", index)
    assert weight is not None  # it has a tail
    same = held is not None and np.array_equal(held.steps, weight.steps)
    paths = [
        describe_path(
            pair,
            weight.steps,
            weight.values[:, column],
            held.values[:, column] if held is not None and same else None,
            layout,
        )
        for column, pair in enumerate(pairs)
    ]
    return sorted(paths, key=lambda path: -path.weight)


def path_words(path: SkipPath, step: int, more: int) -> str:
    """Say one path as it is at `step`, its last record, with the mean that makes it a path.

    `more` others are counted at the end.
    """
    reads = target_words(path.target_name, path.target)
    head = f"{reads} gives {source_words(path.source_name)} a weight of {significant(path.last_weight)} at step {step}"
    mean = f" (mean of {records_words(path.records)} {significant(path.weight)})"
    if np.isnan(path.last_contribution):
        body = ", contribution not recorded"
    elif path.weight_only:
        body = f", yet only {percent(path.last_contribution)} of its read"
    else:
        body = f", {percent(path.last_contribution)} of its read"
    count = "" if more == 0 else f"; {more} more skip path{'s' if more > 1 else ''}"
    return f"{head}{mean}{body}{count}."


def _find(records: Records) -> list[Finding]:
    paths, steps = paths_of(records), records.steps("depth_attention")
    last = int(steps[-1]) if steps.size else 0
    carrying = [path for path in paths if not path.weight_only]
    groups = (carrying, [path for path in paths if path.weight_only])
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=path_words(group[0], last, len(group) - 1),
            values={**as_values(group[0]), "others": len(group) - 1},
            page="attention",
            quantity="depth_attention",
            step=last,
            detail=(
                f"A weight of {significant(threshold(group[0].n_sources))} or more in {percent(group[0].above)} of "
                f"the last tenth of records, {records_words(group[0].records)}, and "
                f"{significant(group[0].times_uniform)} times uniform in their mean; since step "
                f"{group[0].first_step} ± {group[0].cadence}. {WEIGHTS_ONLY}"
            ),
        )
        for group in groups
        if group
    ]


def no_mixers(layout: DepthLayout) -> str:
    """Return why questions about depth attention make no sense for a layout; empty where they do."""
    return "" if layout.sources else "the design has no depth attention"


def no_shares(layout: DepthLayout) -> str:
    """Return why a weight is no share of a target's attention; empty where it is."""
    return no_mixers(layout) or (
        "" if layout.normalised else "the weights of the design's depth attention do not sum to 1"
    )


RULE = Rule(
    kind="skip_path",
    question="Which targets read a distant source well above uniform?",
    find=_find,
    needs=("depth_attention",),
    excludes=no_shares,
)
