"""Outer state over steps, the numbers: one quantity of a wide state by block at every recorded step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.columns import column_means
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.shown import require
from depthscope.quantities import quantity as look_up


@dataclass(frozen=True, kw_only=True)
class OuterHistoryOptions:
    """Which quantity of the outer state is followed over steps."""

    quantity: str = "outer_energy"
    """A quantity with dims (block), (block, side) or none."""
    columns: int = 400
    """Most columns of one run."""


def outer_history_data(runs: Sequence[ReadableRun], options: OuterHistoryOptions) -> Labelled:
    """Return per run an array (entry, column), means where steps are binned.

    Coordinates: ``step_start`` and ``step_end`` (column), and over entry ``block`` (from 1; 0 for the whole
    run) and ``side`` (read, write, or empty). Attribute ``last_step``: the run's newest step, of any stream.
    """
    shown = look_up(options.quantity)

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, shown.name)
        array = run.read(shown.name, columns=options.columns)
        if array.sizes["step"] == 0:
            raise Absent("no outer state is recorded yet")
        mean = column_means(array)
        values = np.asarray(mean.values, dtype=np.float64).reshape(mean.sizes["step"], -1).T
        blocks = mean.sizes.get("block", 1)
        sides = ["read", "write"] if "side" in mean.dims else [""]
        first = 1 if "block" in mean.dims else 0
        return xr.DataArray(
            values,
            dims=("entry", "column"),
            coords={
                "step_start": ("column", np.asarray(array["step_start"].values, dtype=np.int64)),
                "step_end": ("column", np.asarray(array["step_end"].values, dtype=np.int64)),
                "block": ("entry", np.repeat(np.arange(first, first + blocks), len(sides))),
                "side": ("entry", np.array(sides * blocks)),
            },
            name=shown.name,
            attrs={**shown.attributes(), "design": run.layout.design, "last_step": run.last_step},
        )

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": shown.name,
            "title": f"{shown.label} by block and step",
            "note": "" if shown.units == "1" else shown.units,
            "signed": not shown.positive,
        },
    )
