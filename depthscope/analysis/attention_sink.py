"""Attention sink: a source that nearly every target weights far above uniform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.skip_path import LEAST_SOURCES, WEIGHTS_ONLY, no_shares
from depthscope.analysis.wording import percent, significant, source_words

LIMIT = 3.0


@dataclass(frozen=True, kw_only=True)
class AttentionSink:
    """A source whose mean weight over targets, each against uniform, lies above 3."""

    source: int
    source_name: str
    times_uniform: float
    contribution: float
    """Mean over the same targets; NaN where it is not recorded."""
    targets: int
    """Targets with at least four sources for which it is not the newest."""


def sinks(
    weight: FloatArray,
    contribution: FloatArray | None,
    sources: Sequence[Sequence[int]],
    names: Sequence[str],
) -> list[AttentionSink]:
    """Return the sinks in `weight` [target, source], one record, largest first.

    A target counts when it can read at least four sources; its newest source is left out, since a high weight
    there is locality.
    """
    found = []
    for source, name in enumerate(names):
        targets = [
            (target, len(columns))
            for target, columns in enumerate(sources)
            if len(columns) >= LEAST_SOURCES and source in columns and source != max(columns)
        ]
        if not targets:
            continue
        mean = float(np.mean([weight[target, source] * n_sources for target, n_sources in targets]))
        if mean > LIMIT:
            rows = [target for target, _ in targets]
            held = float("nan") if contribution is None else float(np.mean(contribution[rows, source]))
            found.append(
                AttentionSink(
                    source=source,
                    source_name=name,
                    times_uniform=mean,
                    contribution=held,
                    targets=len(targets),
                )
            )
    return sorted(found, key=lambda sink: -sink.times_uniform)


def _find(records: Records) -> list[Finding]:
    weight = records.newest("depth_attention")
    if weight is None:
        return []
    layout, step = records.layout, weight.newest_step
    contribution = records.at("depth_contribution", step)
    held = None if contribution is None else contribution.newest
    out = []
    for sink in sinks(weight.newest, held, layout.sources, layout.source_names):
        name = source_words(sink.source_name)
        text = (
            f"over {sink.targets} targets {name} has {significant(sink.times_uniform)} times its uniform weight "
            f"at step {step}"
        )
        if np.isfinite(sink.contribution):
            text += f" and is {percent(sink.contribution)} of what they read"
        out.append(
            Finding(
                kind=RULE.kind,
                run_name=records.name,
                text=f"{text}.",
                values=as_values(sink),
                page="attention",
                quantity="depth_attention",
                step=step,
                detail=(
                    f"Mean over targets with four or more sources, where it is not the newest; reported above "
                    f"{LIMIT:.0f} times. {WEIGHTS_ONLY}"
                ),
            )
        )
    return out


RULE = Rule(
    kind="attention_sink",
    question="Does one source draw weight from nearly every target?",
    find=_find,
    needs=("depth_attention",),
    excludes=no_shares,
)
