"""Several processes train one model: every rank records, and rank 0 writes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch.distributed as dist

MEETING_SECONDS = 300
"""How long a rank waits for the others where every rank must come: at attach, and at the first forward."""

_attached = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among those that train the model; a gloo group of our own carries what they tell each other."""

    world: int
    rank: int
    group: Any

    @property
    def writes(self) -> bool:
        """Whether this is the rank with the store."""
        return self.rank == 0

    def exchange(self, value: Any) -> list[Any]:
        """Give `value` to every rank and return every rank's; all ranks must come. Never called once rows flow."""
        everyone: list[Any] = [None] * self.world
        dist.all_gather_object(everyone, value, group=self.group)
        return everyone


@dataclass
class Agreement:
    """What a rank brings to an `agreed` block."""

    same: dict[str, Any] = field(default_factory=dict)
    """Must be equal on all ranks."""
    own: Any = None
    """May differ."""
    everyone: list[Any] = field(default_factory=list)
    """After the block: every rank's `own`, by rank."""


@contextmanager
def agreed(ranks: Ranks | None, doing: str) -> Iterator[Agreement]:
    """Run the body on every rank; it fails on all when it fails on one, or when they disagree.

    Raises:
        RuntimeError: on the ranks whose body ran, naming the rank that failed or differs, and in what.
    """
    agreement = Agreement()
    if ranks is None:
        yield agreement
        agreement.everyone = [agreement.own]
        return
    error: Exception | None = None
    try:
        yield agreement
    except Exception as raised:  # noqa: BLE001 - told to the others, then raised
        error = raised
    told = None if error is None else f"{type(error).__name__}: {error}"
    everyone = ranks.exchange((doing, told, agreement.same, agreement.own))
    if error is not None:
        raise error
    for rank, (other_doing, failure, same, _) in enumerate(everyone):
        if failure is not None:
            raise RuntimeError(f"rank {rank} could not {other_doing}: {failure}")
        if other_doing != doing:
            raise RuntimeError(
                f"rank {rank} is to {other_doing} while rank {ranks.rank} is to {doing}: every rank makes its "
                "recorder, and calls the model for the first time, at the same place"
            )
        if difference := _difference(everyone[0][2], same):
            raise RuntimeError(f"rank {rank} differs from rank 0 in {difference}")
    agreement.everyone = [own for *_, own in everyone]


def meet() -> Ranks | None:
    """Wait until every rank makes a recorder, and return this rank's place; None for a single process.

    Raises:
        RuntimeError: some rank makes none.
    """
    if not several_ranks():
        return None
    world, rank = dist.get_world_size(), dist.get_rank()
    _wait_for_everyone(world, rank)
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=MEETING_SECONDS))
    return Ranks(world=world, rank=rank, group=group)


def several_ranks() -> bool:
    """Whether torch.distributed runs with more than one rank."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _wait_for_everyone(world: int, rank: int) -> None:
    """Come together through the store, which tells who is missing: making a group alone would only hang."""
    store = dist.distributed_c10d._get_default_store()
    attach = next(_attached)
    keys = [f"depthscope/{attach}/{other}" for other in range(world)]
    store.set(keys[rank], "here")
    deadline = time.monotonic() + MEETING_SECONDS
    while not store.check(keys):
        if time.monotonic() > deadline:
            absent = ", ".join(str(other) for other in range(world) if not store.check([keys[other]]))
            raise RuntimeError(
                f"rank {absent} made no Recorder within {MEETING_SECONDS} s: make it on every rank, with the same "
                "arguments and at the same place; rank 0 alone writes"
            )
        time.sleep(0.02)


def _difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    for name, value in expected.items():
        if found.get(name) != value:
            return f"{name}: {_short(found.get(name))}, and rank 0 has {_short(value)}"
    return ""


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
