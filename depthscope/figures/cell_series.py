"""One cell of depth attention over steps, the numbers: its weight, its spread over tokens, its contribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.columns import column_means
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import recorded_steps
from depthscope.figures.shown import require

SERIES = {
    "weight": "depth_attention",
    "spread": "depth_attention_std",
    "contribution": "depth_contribution",
}


@dataclass(frozen=True, kw_only=True)
class CellSeriesOptions:
    """Which cell is followed over steps."""

    target: int
    """Sublayer from 1; L + 1 is the final read."""
    source: int
    """Column of the source axis, from 0."""
    columns: int = 400
    """Most points."""


def cell_series_data(runs: Sequence[ReadableRun], options: CellSeriesOptions) -> Labelled:
    """Return per run an array (part, point), part = weight, spread over tokens, contribution; NaN if unrecorded.

    The coordinate ``step`` (point) is the last step of a point; ``n_sources`` says what uniform would be.
    """

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, "depth_attention")
        layout = run.layout
        sources = layout.sources[options.target - 1] if options.target <= len(layout.sources) else ()
        if options.source not in sources:
            raise Absent("that target cannot read that source")
        if recorded_steps(run, "depth_attention").size == 0:
            raise Absent("no depth attention is recorded yet")
        rows = {}
        steps = np.empty(0, np.int64)
        for name, quantity in SERIES.items():
            if quantity in run.quantities:
                array = run.read(quantity, layers=[options.target], columns=options.columns)
                means = column_means(array).isel(target=0, source=options.source)
                rows[name] = np.asarray(means.values, dtype=np.float64)
                steps = np.asarray(array["step_end"].values, dtype=np.int64)
        gap = np.full(steps.size, np.nan)
        return xr.DataArray(
            np.stack([rows.get(name, gap) for name in SERIES]),
            dims=("part", "point"),
            coords={
                "part": list(SERIES),
                "step": ("point", steps),
                "n_sources": len(sources),
                "target": options.target,
                "target_name": layout.target_names[options.target - 1],
                "source": options.source,
                "source_name": layout.source_names[options.source],
            },
            name="depth_attention",
        )

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={"quantity": "depth_attention", "title": "Weight and contribution", "signed": True},
    )
