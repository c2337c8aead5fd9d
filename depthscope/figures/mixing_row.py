"""One read of every run, the numbers: the share of each origin in it, at one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import xarray as xr

from depthscope.figures.labelled import Absent, Labelled
from depthscope.figures.mixing import MixingOptions, entry_of, mixing_data
from depthscope.figures.readable import ReadableRun


@dataclass(frozen=True, kw_only=True)
class MixingRowOptions(MixingOptions):
    """Which read is shown, and what of it."""

    target: int | None = None
    """Sublayer from 1; None: the final read of each run, however deep it is."""


def mixing_row_data(runs: Sequence[ReadableRun], options: MixingRowOptions) -> Labelled:
    """Return per run an array (origin): one row of `mixing_data`, with its coordinates."""
    maps = mixing_data(
        runs, MixingOptions(**{f.name: getattr(options, f.name) for f in fields(MixingOptions)})
    )
    arrays: dict[str, xr.DataArray] = {}
    absent = dict(maps.absent)
    for run in runs:
        if run.id in maps.arrays:
            try:
                row, _ = entry_of(run, options.target, 0)
                arrays[run.id] = maps.arrays[run.id].isel(target=row)
            except Absent as reason:
                absent[run.id] = str(reason)
    return replace(maps, arrays=arrays, absent=absent)
