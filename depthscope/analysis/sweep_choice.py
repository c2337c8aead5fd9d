"""Which sweep of a run speaks for a step: effects are measured at a few checkpoints, pages stand at any step."""

from __future__ import annotations

from collections.abc import Iterable

from depthscope.store import Sweep

SOURCES = "sources"
"""The kind of sweep that cuts each source of each target."""
LENS = "lens"
"""The kind of sweep that looks into depth and cuts nothing."""
MODES = ("renormalise", "zero", "mean", "resample")
"""What stands in place of what is cut; of two sweeps at one step the earlier of these is taken."""


def chosen_sweep(
    sweeps: Iterable[Sweep], *, kind: str = SOURCES, step: int | None = None, mode: str | None = None
) -> Sweep | None:
    """Return the newest sweep of a kind at or before `step`, else the first after it; None where there is none.

    `step` None: the newest of all. `mode` None: any. A sweep that does not know its step comes last; of several at
    one step the first by `MODES` and then by name is taken.
    """
    found = [sweep for sweep in sweeps if sweep.kind == kind and mode in (None, sweep.mode)]
    return min(found, key=lambda sweep: _rank(sweep, step), default=None)


def _rank(sweep: Sweep, step: int | None) -> tuple[int, int, int, str]:
    place = MODES.index(sweep.mode) if sweep.mode in MODES else len(MODES)
    if sweep.step is None:
        return 2, 0, place, sweep.name
    late = step is not None and sweep.step > step
    return int(late), sweep.step if late else -sweep.step, place, sweep.name
