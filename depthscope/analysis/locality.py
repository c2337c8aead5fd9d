"""Locality: how depth mixers split their weight between the newest source, the embedding and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.skip_path import LEAST_SOURCES, WEIGHTS_ONLY, no_shares
from depthscope.analysis.wording import significant


@dataclass(frozen=True, kw_only=True)
class Locality:
    """Means over the targets with at least four sources, at one record; NaN where not defined."""

    newest: float
    """Weight of the newest source times the number of sources: 1 is uniform."""
    embedding: float
    """Weight of the embedding, likewise."""
    targets: int
    entropy_attention: float
    """Entropy of the weights (1 is uniform) in the reads of attention sublayers."""
    entropy_mlp: float


def locality(
    weight: FloatArray, entropy: FloatArray | None, sources: Sequence[Sequence[int]], kinds: Sequence[str]
) -> Locality | None:
    """Return the locality of `weight` [target, source] and `entropy` [target]; None without such targets.

    `kinds` names the sublayer that each target feeds; the final read has none.
    """
    rows = [target for target, columns in enumerate(sources) if len(columns) >= LEAST_SOURCES]
    if not rows:
        return None
    counts = np.array([len(sources[target]) for target in rows], dtype=np.float64)
    newest = np.array([weight[target, max(sources[target])] for target in rows])

    def mean_entropy(kind: str) -> float:
        chosen = [target for target in rows if target < len(kinds) and kinds[target] == kind]
        return float(np.mean(entropy[chosen])) if entropy is not None and chosen else float("nan")

    return Locality(
        newest=float(np.mean(newest * counts)),
        embedding=float(np.mean(weight[rows, 0] * counts)),
        targets=len(rows),
        entropy_attention=mean_entropy("attention"),
        entropy_mlp=mean_entropy("mlp"),
    )


def _find(records: Records) -> list[Finding]:
    weight = records.newest("depth_attention")
    if weight is None:
        return []
    step = weight.newest_step
    entropy = records.at("depth_attention_entropy", step)
    layout = records.layout
    found = locality(
        weight.newest, None if entropy is None else entropy.newest, layout.sources, layout.layer_kinds
    )
    if found is None or not np.isfinite([found.newest, found.embedding]).all():
        return []
    text = (
        f"over {found.targets} targets the newest source has {significant(found.newest)} and the embedding "
        f"{significant(found.embedding)} times its uniform weight at step {step}"
    )
    if np.isfinite([found.entropy_attention, found.entropy_mlp]).all():
        text += (
            f"; entropy {significant(found.entropy_attention)} pre-attention, "
            f"{significant(found.entropy_mlp)} pre-MLP"
        )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=f"{text}.",
            values=as_values(found),
            page="attention",
            quantity="depth_attention",
            step=step,
            detail=(
                "Means over the targets with four or more sources; at 1 a source has its uniform weight, 1 over "
                f"the number of sources, and an entropy of 1 is uniform over all of them. {WEIGHTS_ONLY}"
            ),
        )
    ]


RULE = Rule(
    kind="locality",
    question="How much weight do depth mixers give the newest source and the embedding?",
    find=_find,
    needs=("depth_attention",),
    excludes=no_shares,
)
