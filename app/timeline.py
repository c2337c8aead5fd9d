"""A run's recorded steps as segments, and the phases of its learning rate, for the step bar."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.app.reading import CachedRun
from depthscope.store import RunError

_MOST_SEGMENTS = 500


def timeline(run: CachedRun) -> dict[str, Any]:
    """Return ``segments`` (first, last, distance) and ``phases`` (name, start, stop) of a run."""
    steps = np.empty(0, np.int64)
    # A damaged run has its reason in the panels; here it only has no steps.
    with suppress(RunError, OSError):
        steps = run.steps("fast") if "fast" in run.streams else steps
    return {"segments": segments(steps), "phases": phases(run.config)}


def segments(steps: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return runs of equally spaced steps, each [first, last, distance]; a million even steps are one.

    Steps without any order, past a few hundred segments, are thinned rather than sent whole.
    """
    found: list[list[int]] = []
    gaps = np.diff(steps)
    changes = np.append(np.flatnonzero(np.diff(gaps)) + 1, gaps.size)
    place = 0
    while place < steps.size:
        first = int(steps[place])
        if place + 1 == steps.size:
            found.append([first, first, 1])
            break
        last = int(changes[np.searchsorted(changes, place, "right")])
        found.append([first, int(steps[last]), max(int(gaps[place]), 1)])
        place = last + 1
        if len(found) > _MOST_SEGMENTS:
            kept = steps[:: max(1, steps.size // _MOST_SEGMENTS)]
            return [[int(step), int(step), 1] for step in kept]
    return found


def phases(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return warm-up, constant and decay as the configuration's `schedule` has them; empty without one."""
    schedule = config.get("schedule")
    if not isinstance(schedule, Mapping):
        return []
    warmup, decay, total = (_step(schedule.get(key)) for key in ("warmup", "decay_start", "total"))
    if total is None:
        return []
    bounds = [("warm-up", 0, warmup or 0), ("constant", warmup or 0, total if decay is None else decay)]
    if decay is not None:
        bounds.append(("decay", decay, total))
    return [{"name": name, "start": start, "stop": stop} for name, start, stop in bounds if 0 <= start < stop]


def _step(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
