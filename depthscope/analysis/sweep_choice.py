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
    """Return the sweep of a kind whose step is nearest to `step`, of two as near the later; None where there is none.

    The nearest and not the newest before: a checkpoint counts the updates that were made, a row the step it belongs to,
    so that of the final state is one step later than the final row. `step` None: the newest of all. `mode` None: any. A
    sweep that does not know its step comes last. Of several at one step the first by `MODES` is taken, of one mode that
    of the most batches, and of these the one that was written last.
    """
    found = [sweep for sweep in sweeps if sweep.kind == kind and mode in (None, sweep.mode)]
    nearest = min((_rank(sweep, step) for sweep in found), default=None)
    alike = [sweep for sweep in found if _rank(sweep, step) == nearest]
    if len(alike) < 2:
        return alike[0] if alike else None
    return max(alike, key=lambda sweep: (sweep.batches, max(sweep.cells.mark(), default=0)))


def _rank(sweep: Sweep, step: int | None) -> tuple[int, int, int, int]:
    place = MODES.index(sweep.mode) if sweep.mode in MODES else len(MODES)
    if sweep.step is None:
        return 1, 0, 0, place
    return 0, 0 if step is None else abs(sweep.step - step), -sweep.step, place
