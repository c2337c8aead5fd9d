"""When a stream is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STREAMS = ("fast", "slow")
SLOW_FACTOR = 100


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Due at every step below `dense_until`, then at every multiple of `every`: a pure function of the step."""

    every: int
    dense_until: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every={self.every!r}: expected a whole number of steps, 1 or more")

    def due(self, step: int) -> bool:
        return step < self.dense_until or step % self.every == 0


def schedules(every: int | Mapping[str, int | Schedule]) -> dict[str, Schedule]:
    """Return the schedule of each stream; an int is the fast stream's, and the slow one's is 100 times that."""
    if not isinstance(every, int | Mapping):
        raise TypeError(f"every={every!r}: expected a whole number of steps, or a mapping of streams to them")
    given = {"fast": every} if isinstance(every, int) else dict(every)
    if unknown := set(given) - set(STREAMS):
        raise ValueError(f"every={every!r}: no stream is called {min(unknown)!r}; there are {STREAMS}")
    whole = {
        stream: value if isinstance(value, Schedule) else Schedule(every=value)
        for stream, value in given.items()
    }
    fast = whole.get("fast", Schedule(every=1))
    return {"fast": fast, "slow": whole.get("slow", Schedule(every=SLOW_FACTOR * fast.every))}
