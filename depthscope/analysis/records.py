"""The records of a run as the rules read them: up to one step, as plain arrays, or None where it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthscope.analysis.fit import FloatArray, IntArray
from depthscope.analysis.readable import ReadableRun
from depthscope.quantities import DepthLayout
from depthscope.store import Sweep

TAIL = 0.1
"""`The last tenth of records`."""
_BLOCK_BYTES = 64 * 2**20
_MOST_NUMBERS = 2**21
"""Of one series: 16 MiB. Above that, records are the means of equal bins, which the store has ready."""
_FEWEST_BINS = 64
_MOST_PICKED_BYTES = 2**28
"""Read to pick entries of a map from; above that, as above."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A quantity at some recorded steps: `values` [records, ...] at `steps` [records], at least one record."""

    steps: IntArray
    values: FloatArray

    @property
    def newest(self) -> FloatArray:
        return np.asarray(self.values[-1])

    @property
    def newest_step(self) -> int:
        return int(self.steps[-1])


class Records:
    """Reads a run up to `step` (default: its newest), also while it grows: rows that come later are not seen."""

    def __init__(self, run: ReadableRun, step: int | None = None) -> None:
        self._run = run
        last = run.last_step
        self._last = last if step is None or last is None else min(step, last)

    @property
    def run(self) -> ReadableRun:
        """The run itself, with whatever came later."""
        return self._run

    def sweeps(self) -> list[Sweep]:
        """Return the sweeps of interventions; of a run that is looked at up to an earlier step those up to it."""
        found = self._run.sweeps()
        if self._last == self._run.last_step:
            return list(found)
        return [each for each in found if each.step is not None and each.step <= (self._last or 0)]

    @property
    def name(self) -> str:
        return self._run.name

    @property
    def config(self) -> Mapping[str, Any]:
        return self._run.config

    @property
    def missing(self) -> Mapping[str, str]:
        return self._run.missing

    @property
    def layout(self) -> DepthLayout:
        return self._run.layout

    @property
    def last_step(self) -> int | None:
        """The newest step that is looked at; None for a run without rows."""
        return self._last

    def steps(self, name: str) -> IntArray:
        """Return the steps that a quantity has records at; empty where the run does not have it."""
        if self._last is None or name not in self._run:
            return np.empty(0, dtype=np.int64)
        steps = self._run.steps(self._run.stream_of(name))
        return steps[: int(np.searchsorted(steps, self._last, "right"))]

    def newest(self, name: str) -> Series | None:
        """Return the newest record alone; None where there is none."""
        steps = self.steps(name)
        return self._read(name, int(steps[-1]), int(steps[-1])) if steps.size else None

    def at(self, name: str, step: int) -> Series | None:
        """Return the record of exactly `step` alone; None where there is none."""
        return self._read(name, step, step) if step in self.steps(name) else None

    def tail(self, name: str) -> Series | None:
        """Return the last tenth of the records, rounded up; None where there is none.

        Very many records come as the means of equal bins over the same steps, each at its bin's last step.
        """
        steps = self.steps(name)
        return self._shortened(name, steps[-tenth(steps.size) :]) if steps.size else None

    def whole(self, name: str) -> Series | None:
        """Return every record of a quantity; None where there is none. Very many come as in `tail`."""
        steps = self.steps(name)
        return self._shortened(name, steps) if steps.size else None

    def entries(self, name: str, index: Sequence[tuple[int, ...]]) -> Series | None:
        """Return every record of some entries of a quantity: values [records, entries]; None where there is none.

        Reads in blocks, so that a long record of a large map is never in memory as a whole. Very many records
        come as in `tail`.
        """
        steps = self.steps(name)
        if steps.size == 0:
            return None
        row_bytes = 8 * prod(self._run.read(name, int(steps[-1])).shape[1:])
        if steps.size * row_bytes > _MOST_PICKED_BYTES:
            bins = self._shortened(name, steps)
            values = np.stack([np.moveaxis(bins.values, 0, -1)[entry] for entry in index], axis=-1)
            return Series(steps=bins.steps, values=values)
        rows = max(1, _BLOCK_BYTES // row_bytes)
        parts = []
        for first in range(0, steps.size, rows):
            block = self._read(name, int(steps[first]), int(steps[min(first + rows, steps.size) - 1]))
            if block is not None:
                picked = [np.moveaxis(block.values, 0, -1)[entry] for entry in index]
                parts.append(Series(steps=block.steps, values=np.stack(picked, axis=-1)))
        return Series(
            steps=np.concatenate([part.steps for part in parts]),
            values=np.concatenate([part.values for part in parts]),
        )

    def first_above_zero(self, name: str) -> Series | None:
        """Return the first record of a quantity over layer that has an entry above 0, alone; None for none."""
        steps = self.steps(name)
        if steps.size == 0:
            return None
        bins = self._run.read(name, int(steps[0]), int(steps[-1]) + 1, columns=512)
        largest = np.asarray(bins.sel(stat="max").values)
        reached = np.flatnonzero((largest > 0).any(axis=1))
        if reached.size == 0:
            return None
        first = int(reached[0])
        found = self._read(name, int(bins["step_start"].values[first]), int(bins["step_end"].values[first]))
        if found is None:
            return None
        row = np.flatnonzero((found.values > 0).any(axis=1))[:1]
        return Series(steps=found.steps[row], values=found.values[row])

    def lacks(self, name: str) -> str:
        """Return why a quantity has no value to look at; empty where it has one."""
        if name in self.missing:
            return f"{name} is not recorded: {self.missing[name]}"
        newest = self.newest(name)
        if newest is None:
            return f"{name} is not recorded"
        if np.all(np.isnan(newest.newest)):
            return f"{name} has no value at step {newest.newest_step}"
        return ""

    def _shortened(self, name: str, steps: IntArray) -> Series:
        """Return the records at `steps`, or the means of bins where they are very many."""
        first, last = int(steps[0]), int(steps[-1])
        size = prod(self._run.read(name, last, last + 1).shape[1:])
        if steps.size * size <= _MOST_NUMBERS:
            exact = self._read(name, first, last)
            assert exact is not None  # there are records at these steps
            return exact
        columns = max(_FEWEST_BINS, _MOST_NUMBERS // size)
        bins = self._run.read(name, first, last + 1, columns=columns)
        values = np.asarray(bins.sel(stat="mean").values, dtype=np.float64)
        return Series(steps=np.asarray(bins["step_end"].values, dtype=np.int64), values=values)

    def _read(self, name: str, first: int, last: int) -> Series | None:
        array = self._run.read(name, first, last + 1)
        steps: NDArray[np.int64] = np.asarray(array["step"].values, dtype=np.int64)
        return Series(steps=steps, values=np.asarray(array.values, dtype=np.float64)) if steps.size else None


def tenth(records: int) -> int:
    """Return how many records the last tenth is: rounded up, so at least one."""
    return ceil(TAIL * records)
