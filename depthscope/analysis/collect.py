"""All findings of a run, most telling first, and why the others could not be looked for."""

from __future__ import annotations

from dataclasses import replace

from depthscope.analysis import (
    attention_sink,
    block_boundary,
    block_sums,
    cancellation,
    dead_query,
    dilution,
    effect_finding,
    gain,
    gradient_uniformity,
    locality,
    massive_activation,
    nonfinite,
    outer_energy,
    outer_extra,
    outer_gates,
    outer_write,
    skip_path,
    state_growth,
    token_gap,
)
from depthscope.analysis.block_control import block_control
from depthscope.analysis.finding import Finding, Value
from depthscope.analysis.readable import ReadableRun
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.skip_path import SkipPath, paths_of

RULES: tuple[Rule, ...] = (
    nonfinite.RULE,
    dead_query.RULE,
    state_growth.RULE,
    block_sums.RULE,
    block_boundary.RULE,
    skip_path.RULE,
    effect_finding.RULE,
    locality.RULE,
    outer_energy.RULE,
    outer_write.RULE,
    outer_gates.RULE,
    outer_extra.RULE,
    dilution.RULE,
    gradient_uniformity.RULE,
    attention_sink.RULE,
    massive_activation.RULE,
    token_gap.RULE,
    gain.RULE,
    cancellation.RULE,
)
RAW_GRADIENT = ("ratio", "variation")
"""Values of gradient uniformity that must not be compared across designs."""


def findings(
    run: ReadableRun, baseline: ReadableRun | None = None, *, step: int | None = None
) -> list[Finding]:
    """Return what stands out in a run, most telling first.

    With `step`, only records at or before it are looked at. With a `baseline`, both runs are read at or before
    the newest step that both have, each finding carries the baseline's values where they may be compared, and
    a run with restarting block sums gets a run without blocks as its control. A quantity that the run lacks
    gives no finding; `undecided` tells why.
    """
    if baseline is None:
        records = Records(run, step)
        return _single(records)
    ends = [last for last in (run.last_step, baseline.last_step, step) if last is not None]
    common = min(ends, default=None)
    records, other = Records(run, common), Records(baseline, common)
    control = block_control(records, other)
    out = []
    for finding in _compared(_single(records), _single(other), other):
        out.append(finding)
        if finding.kind == block_boundary.RULE.kind:
            out += control
    return out


def undecided(run: ReadableRun) -> dict[str, str]:
    """Return, for each kind of finding that could not be looked for, the reason."""
    records = Records(run)
    out = {}
    for rule in RULES:
        reason = rule.excludes(records.layout) or next(filter(None, map(records.lacks, rule.needs)), "")
        if reason:
            out[rule.kind] = reason
    return out


def list_skip_paths(run: ReadableRun, *, step: int | None = None) -> list[SkipPath]:
    """Return every skip path of a run, largest weight first; empty where there is no depth attention."""
    return paths_of(Records(run, step))


def _single(records: Records) -> list[Finding]:
    return [finding for rule in RULES if not rule.excludes(records.layout) for finding in rule.find(records)]


def _compared(own: list[Finding], theirs: list[Finding], other: Records) -> list[Finding]:
    """Attach the baseline's values to each finding whose kind both runs have exactly once."""
    out = []
    for finding in own:
        twins = [twin for twin in theirs if twin.kind == finding.kind]
        if len(twins) == 1 and sum(entry.kind == finding.kind for entry in own) == 1:
            values: dict[str, Value] = dict(twins[0].values)
            if finding.kind == gradient_uniformity.RULE.kind:
                values = {name: value for name, value in values.items() if name not in RAW_GRADIENT}
            said = (
                f"{twins[0].text[:1].upper()}{twins[0].text[1:]}" if values == dict(twins[0].values) else ""
            )
            detail = (
                f"{finding.detail} Baseline {other.name} at step {twins[0].step}: {said}"
                if said
                else finding.detail
            )
            finding = replace(finding, baseline_name=other.name, baseline_values=values, detail=detail)
        out.append(finding)
    return out
