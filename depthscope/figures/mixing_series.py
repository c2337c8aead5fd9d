"""One entry of mixing over steps, the numbers: the share of one origin in one read, of every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.columns import column_means
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.mixing import NO_COEFFICIENTS, SHARE_QUANTITY, Share, entry_of
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import recorded_steps
from depthscope.figures.shown import require
from depthscope.quantities import quantity as look_up


@dataclass(frozen=True, kw_only=True)
class MixingSeriesOptions:
    """Which entry is followed over steps."""

    target: int | None = None
    """Sublayer from 1; None: the final read of each run."""
    origin: int | None = 0
    """0 the embedding, then sublayers; None: the constant."""
    share: Share = "contribution"
    columns: int = 400
    """Most points."""


def mixing_series_data(runs: Sequence[ReadableRun], options: MixingSeriesOptions) -> Labelled:
    """Return per run an array (point), means where steps are binned; ``step`` (point) is a point's last step."""
    name = SHARE_QUANTITY[options.share]

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, name)
        row, column = entry_of(run, options.target, options.origin)
        if recorded_steps(run, name).size == 0:
            raise Absent("no mixing is recorded yet")
        array = run.read(name, layers=[row + 1], columns=options.columns)
        values = column_means(array).isel(target=0, origin=column)
        if np.isnan(values.values).all():
            raise Absent(_no_value(options))
        return xr.DataArray(
            np.asarray(values.values, dtype=np.float64),
            dims=("point",),
            coords={
                "step": ("point", np.asarray(array["step_end"].values, dtype=np.int64)),
                "target": row + 1,
                "target_name": run.layout.target_names[row],
                "origin": column,
                "origin_name": run.layout.origin_names[column],
            },
            name=name,
            attrs=look_up(name).attributes(),
        )

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={"quantity": name, "title": "Mixing over steps", "mode": "absolute", "signed": True},
    )


def _no_value(options: MixingSeriesOptions) -> str:
    """Say why an entry that the design has holds no value at any step."""
    if options.share == "contribution":
        return "that read was not taken apart"
    return "a constant has no coefficient" if options.origin is None else NO_COEFFICIENTS
