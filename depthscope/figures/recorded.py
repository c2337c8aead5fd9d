"""Recorded steps: which row of a run stands for an asked step, and how runs are brought to equal footing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.figures.labelled import Absent
from depthscope.figures.readable import ReadableRun
from depthscope.quantities import QUANTITIES
from depthscope.quantities import quantity as look_up

IntArray: TypeAlias = npt.NDArray[np.int64]
Alignment = Literal["step", "tokens", "loss"]
ALIGNMENTS: tuple[Alignment, ...] = ("step", "tokens", "loss")


def recorded_steps(run: ReadableRun, quantity: str) -> IntArray:
    """Return the step labels of the rows that hold `quantity`, shape [rows]."""
    return run.steps(run.stream_of(quantity))


def row_for(steps: IntArray, asked: int | None) -> int | None:
    """Return the newest recorded step at or before `asked` (None: the newest of all), or None."""
    if steps.size == 0:
        return None
    if asked is None:
        return int(steps[-1])
    place = int(np.searchsorted(steps, asked, side="right")) - 1
    return int(steps[place]) if place >= 0 else None


def recorded_row(run: ReadableRun, quantity: str, step: int) -> npt.NDArray[np.float64]:
    """Return the record of `quantity` at exactly `step`, without the step dim; `Absent` where there is none."""
    row = run.read(quantity, start=step, stop=step + 1)
    if row.sizes["step"] == 0:
        raise Absent(f"{look_up(quantity).label.lower()} has no record at step {step}")
    return np.asarray(row.isel(step=0).values, dtype=np.float64)


def aligned_step(
    run: ReadableRun, reference: ReadableRun | None, asked: int | None, by: Alignment
) -> int | None:
    """Return the step of `run` that matches step `asked` of `reference`.

    By tokens: the newest step with no more tokens seen. By loss: the first step whose lowest validation loss
    so far (training loss where there is none) has reached the reference's lowest so far. A run that never
    gets there stands at its newest step.
    """
    if by == "step" or asked is None or reference is None or run.id == reference.id:
        return asked
    if by == "tokens":
        steps, tokens = _series(run, ["tokens"])
        _, limit = _series(reference, ["tokens"], until=asked)
        if not steps.size or not limit.size:
            return asked
        place = int(np.searchsorted(tokens, limit[-1], side="right")) - 1
        return int(steps[max(place, 0)])
    names = shared_losses([run, reference])
    steps, losses = _series(run, names)
    _, reached = _series(reference, names, until=asked)
    if not steps.size or not reached.size:
        return asked
    lowest = np.minimum.accumulate(losses)
    below = np.flatnonzero(lowest <= reached.min())
    return int(steps[below[0]]) if below.size else int(steps[-1])


def shared_losses(runs: Sequence[ReadableRun]) -> list[str]:
    """Return the names of losses that any of `runs` holds, best first: validation, other evaluations, training."""
    held = {name for run in runs for name in evaluation_names(run)}
    return [*sorted(held, key=lambda name: (name != "validation", name)), "loss"]


def evaluation_names(run: ReadableRun) -> list[str]:
    """Return the names of the losses that a run has evaluated by now: those of its stream ``evaluation``."""
    if "evaluation" not in run.streams or run.steps("evaluation").size == 0:
        return []
    return [name for name in run.quantities if name not in QUANTITIES and f"evaluation/{name}" in run]


def _series(
    run: ReadableRun, names: Sequence[str], until: int | None = None
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return steps and finite values of the first name that the run holds, up to and including `until`."""
    name = next((name for name in names if name in run.quantities), None)
    if name is None:
        return np.empty(0, np.int64), np.empty(0)
    array = run.read(name, stop=None if until is None else until + 1)
    values = np.asarray(array.values, dtype=np.float64)
    finite = np.isfinite(values)
    return np.asarray(array["step"].values, dtype=np.int64)[finite], values[finite]
