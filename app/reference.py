"""What a difference of maps is taken from: a pinned step, the baseline, or the first step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask


def reference_step(
    ask: Ask, runs: Sequence[CachedRun], alike: Callable[[CachedRun, CachedRun], bool]
) -> int | None:
    """Return the step to take off: the first that is pinned, else the first recorded one, or None for the baseline.

    None, where no step is pinned, unless a run's map is not `alike` the baseline's.
    """
    if ask.pins:
        return ask.pins[0]
    base = next((run for run in runs if run.id == ask.base), None)
    if base is not None and len(runs) > 1 and all(alike(run, base) for run in runs):
        return None
    steps = [run.steps("slow") for run in runs if "slow" in run.streams]
    return min((int(found[0]) for found in steps if found.size), default=None)
