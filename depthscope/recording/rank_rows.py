"""One optimizer step's moments, and how those of several ranks become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from depthscope.probes import Array, SiteKind
from depthscope.recording.merge import MERGE, MergedMoment
from depthscope.recording.shards import Keys, put_together, root_sum_square

Moments = dict[tuple[int, str], MergedMoment]


@dataclass(frozen=True, kw_only=True)
class MergedRow:
    """What the probes saw in one optimizer step, merged over its micro-batches, and maybe over ranks."""

    step: int
    moments: Moments
    """By probe and name."""
    tokens: Sequence[Mapping[str, Array]]
    """For each probe and site kind, the token positions behind each entry."""
    widths: Sequence[Mapping[str, Array]]
    known: Mapping[str, float]
    """What is known of the step beside its moments."""
    low_precision: bool
    traced: bool = False
    """Some of it was added up in compiled code."""
    ranks: int = 1
    """Number of ranks that are merged here."""


def combine(rows: Mapping[int, MergedRow], keys: Mapping[SiteKind, Keys]) -> MergedRow:
    """Merge the rows of the ranks that came, rank 0 among them, each moment by its own rule.

    `keys` gives, for the site kinds where parameters are looked at, the shard [ranks, entries] that each rank
    holds. What a site left on some ranks only counts with the tokens of those.
    """
    first = rows[0]
    names = {name: None for row in rows.values() for name in row.moments}
    return replace(
        first,
        moments={name: _moment(name, rows, keys) for name in names},
        tokens=[
            {kind: np.sum([row.tokens[probe][kind] for row in rows.values()], axis=0) for kind in held}
            for probe, held in enumerate(first.tokens)
        ],
        widths=[
            {kind: _widest([row.widths[probe][kind] for row in rows.values()]) for kind in held}
            for probe, held in enumerate(first.widths)
        ],
        known=_known(rows),
        low_precision=any(row.low_precision for row in rows.values()),
        traced=any(row.traced for row in rows.values()),
        ranks=len(rows),
    )


def _moment(
    name: tuple[int, str], rows: Mapping[int, MergedRow], keys: Mapping[SiteKind, Keys]
) -> MergedMoment:
    brought = {rank: row.moments[name] for rank, row in rows.items() if name in row.moments}
    any_rank = next(iter(brought.values()))
    shards = keys.get(any_rank.kind)
    if any_rank.rule == "norm" and shards is not None and shards.shape[1] == any_rank.values.size:
        return _norm(brought, shards)
    merge = MERGE[any_rank.rule]
    values, visited = any_rank.values, any_rank.visited
    for moment in list(brought.values())[1:]:
        # NaN marks what nobody visited, and may have been measured too: only the first is neutral.
        both = merge(values, moment.values)
        values = np.where(visited & moment.visited, both, np.where(visited, values, moment.values))
        visited = visited | moment.visited
    return replace(any_rank, values=values, visited=visited)


def _norm(brought: Mapping[int, MergedMoment], shards: Keys) -> MergedMoment:
    any_rank = next(iter(brought.values()))
    values = np.full(shards.shape, -1.0)
    visited = np.zeros(shards.shape[1], dtype=bool)
    for rank, moment in brought.items():
        seen = moment.visited.reshape(-1)
        values[rank, seen] = moment.values.reshape(-1)[seen]
        visited |= seen
    whole = root_sum_square(values, shards)
    shape = any_rank.values.shape
    return replace(
        any_rank, values=np.where(visited, whole, np.nan).reshape(shape), visited=visited.reshape(shape)
    )


def _widest(widths: Sequence[Array]) -> Array:
    widest: Array = np.fmax.reduce(widths)
    return widest


def _known(rows: Mapping[int, MergedRow]) -> dict[str, float]:
    """Rank 0's, but for what is a mean, a sum, or known in parts."""
    every = {rank: row.known for rank, row in rows.items()}
    known = dict(every[0])
    losses = [each["loss"] for each in every.values() if "loss" in each]
    if losses:
        known["loss"] = float(np.mean(losses))
    for name in ("tokens", "loss_tokens"):
        if all(name in each for each in every.values()):
            known[name] = sum(each[name] for each in every.values())
    scales = {each.get("loss_scale", 1.0) for each in every.values()}
    if len(scales) > 1 or any("withhold_gradients" in each for each in every.values()):
        known["withhold_gradients"] = 1.0
    for name in ("masked", "read_in_part"):
        if any(name in each for each in every.values()):
            known[name] = 1.0
    if "norm_shares" in known:
        parts = {
            each["norm_share"]: each["grad_norm_before_clip"]
            for each in every.values()
            if "norm_share" in each and "grad_norm_before_clip" in each
        }
        known["grad_norm_before_clip"] = put_together(parts, int(known["norm_shares"]), known["norm_order"])
    return known
