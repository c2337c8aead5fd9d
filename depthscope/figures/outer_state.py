"""Outer state, the numbers: what a wide state carries, is written and lets through, by block at one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import Alignment, aligned_step, recorded_steps, row_for
from depthscope.figures.shown import FloatArray, require
from depthscope.quantities import quantity as look_up

BLOCK_VALUES = {
    "energy": "outer_energy",
    "carry": "outer_carry_energy",
    "write": "outer_write_energy",
    "write_ratio": "outer_write_ratio",
    "write_cosine": "outer_write_cosine",
    "extra_share": "outer_extra_share",
}
GATES = ("read", "write")


@dataclass(frozen=True, kw_only=True)
class OuterStateOptions:
    """Which step of the outer state is shown."""

    step: int | None = None
    """Each run shows its newest record at or before this step; None means its newest record."""
    baseline: str | None = None
    """Id of the run whose step other runs are matched with; None: the first."""
    align: Alignment = "step"


def outer_state_data(runs: Sequence[ReadableRun], options: OuterStateOptions) -> Labelled:
    """Return per run an array (value, block); NaN for what a run did not record.

    Values: ``energy`` (before the boundary norm), ``carry``, ``write`` (activation squared per feature),
    ``write_ratio``, ``write_cosine``, ``extra_share``, ``gate_read``, ``gate_write`` and both gates at the run's
    first record, ``gate_read_initial``, ``gate_write_initial``. Coordinates: ``step``, ``first_step`` (of the
    initial gates), ``direct`` (amplitude of the embedding's direct path) and ``block`` (from 1).
    """
    baseline = next((run for run in runs if run.id == options.baseline), runs[0] if runs else None)

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, "outer_energy")
        steps = recorded_steps(run, "outer_energy")
        found = row_for(steps, aligned_step(run, baseline, options.step, options.align))
        if found is None:
            raise Absent("no outer state is recorded yet")
        first, blocks = int(steps[0]), run.layout.outer_blocks
        values = {name: _row(run, quantity, found, (blocks,)) for name, quantity in BLOCK_VALUES.items()}
        gates = _row(run, "interface_gate", found, (blocks, len(GATES)))
        initial = _row(run, "interface_gate", first, (blocks, len(GATES)))
        values |= {f"gate_{side}": gates[:, place] for place, side in enumerate(GATES)}
        values |= {f"gate_{side}_initial": initial[:, place] for place, side in enumerate(GATES)}
        return xr.DataArray(
            np.stack(list(values.values())),
            dims=("value", "block"),
            coords={
                "value": list(values),
                "block": np.arange(1, blocks + 1),
                "step": found,
                "first_step": first,
                "direct": float(_row(run, "outer_direct", found, ())),
            },
            name="outer_energy",
            attrs={**look_up("outer_energy").attributes(), "design": run.layout.design},
        )

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": "outer_energy",
            "title": "Outer state",
            "note": "by block, before the boundary norm",
            "signed": False,
        },
    )


def _row(run: ReadableRun, quantity: str, step: int, shape: tuple[int, ...]) -> FloatArray:
    if quantity not in run.quantities:
        return np.full(shape, np.nan)
    row = run.read(quantity, start=step, stop=step + 1)
    if row.sizes["step"] == 0:
        return np.full(shape, np.nan)
    return np.asarray(row.isel(step=0).values, dtype=np.float64)
