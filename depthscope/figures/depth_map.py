"""Depth map, the numbers: a quantity over sublayers and all recorded steps, one array a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.columns import column_means
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.limits import has_logarithm
from depthscope.figures.readable import ReadableRun
from depthscope.figures.sampled import is_sampled
from depthscope.figures.shown import (
    FloatArray,
    Mode,
    difference,
    heading,
    is_signed,
    quantity_shown,
    ratio_to_first,
    require,
    require_ratio,
    short_label,
    shown_values,
)
from depthscope.figures.within import require_within
from depthscope.quantities import quantity as look_up
from depthscope.quantities import readable_layers

MOST_COLUMNS = 1500
"""Columns of all maps together."""


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """What a depth map shows."""

    quantity: str = "state_logrms"
    mode: Mode = "absolute"
    baseline: str | None = None
    """Id of the run that differences are taken from; None: the first."""
    columns: int | None = None
    """Most columns of one run; None: its share of 1,500, at most 400."""

    def __post_init__(self) -> None:
        require_within("columns", self.columns, 1)


def columns_for(runs: int) -> int:
    """Return how many columns each of `runs` maps may have."""
    return min(400, MOST_COLUMNS // max(runs, 1))


def depth_map_data(runs: Sequence[ReadableRun], options: MapOptions) -> Labelled:
    """Return per run an array (layer, column) in shown units, column means where steps are binned.

    Coordinates `step_start` and `step_end` (column) are the first and last step in a column, `reachable`
    (layer) the entries that the design can have. In a difference the baseline itself is left out.
    """
    shown = quantity_shown(options.quantity, options.mode)
    baseline = next((run for run in runs if run.id == options.baseline), runs[0] if runs else None)
    columns = options.columns or columns_for(len(runs))

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, shown)
        values, start, end = _binned(run, shown, columns)
        if options.mode == "ratio":
            ratios = ratio_to_first(values, axis=0)
            require_ratio(ratios, values, shown)
            values = ratios
        if options.mode == "difference":
            values = _minus_baseline(values, start, run, baseline, shown, columns)
        layout = run.layout
        return xr.DataArray(
            values,
            dims=("layer", "column"),
            coords={
                "step_start": ("column", start),
                "step_end": ("column", end),
                "layer": np.arange(1, layout.layers + 1),
                "layer_kind": ("layer", np.asarray(layout.layer_kinds)),
                "residual_block": ("layer", np.asarray(layout.residual_block)),
                "reachable": ("layer", np.asarray(readable_layers(look_up(shown), layout), dtype=bool)),
            },
            name=shown,
            attrs={
                **look_up(shown).attributes(),
                "mode": options.mode,
                "design": layout.design,
                "sampled": is_sampled(run, shown),
            },
        )

    drawn = list(runs)
    if options.mode == "difference" and baseline is not None:
        drawn = [run for run in runs if run.id != baseline.id]
    arrays, absent, names = per_run(drawn, part)
    if baseline is not None:
        names.setdefault(baseline.id, baseline.name)
    _, note = heading(options.quantity, options.mode)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": shown,
            "mode": options.mode,
            "title": f"{short_label(options.quantity, options.mode)} by sublayer and step",
            "note": note.partition(",")[0],
            "signed": is_signed(options.quantity, options.mode),
            "baseline": None if baseline is None else baseline.id,
        },
    )


def map_log(data: Labelled, asked: bool) -> bool:
    """Return whether a map's colours are logarithmic: as asked, but for signed values and where none is positive."""
    return asked and not data.attributes["signed"] and has_logarithm(data.arrays.values())


def _binned(
    run: ReadableRun, quantity: str, columns: int
) -> tuple[
    FloatArray, np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]
]:
    """Return values (layer, column) in shown units and the first and last step of each column."""
    array = run.read(quantity, columns=columns)
    if array.sizes["step"] == 0:
        raise Absent("no step is recorded yet")
    mean = column_means(array).transpose("layer", "step")
    start = np.asarray(array["step_start"].values, dtype=np.int64)
    end = np.asarray(array["step_end"].values, dtype=np.int64)
    return shown_values(mean.values, quantity), start, end


def _minus_baseline(
    values: FloatArray,
    start: np.ndarray[tuple[int], np.dtype[np.int64]],
    run: ReadableRun,
    baseline: ReadableRun | None,
    quantity: str,
    columns: int,
) -> FloatArray:
    """Compare each column with the baseline's column at or before its first step."""
    assert baseline is not None, "a difference needs at least the run itself"
    require(baseline, quantity)
    if run.layout.layers != baseline.layout.layers:
        raise Absent(
            f"has {run.layout.layers} sublayers, the baseline {baseline.name} has {baseline.layout.layers}"
        )
    reference, reference_start, _ = _binned(baseline, quantity, columns)
    place = np.searchsorted(reference_start, start, side="right") - 1
    matched = np.where(place >= 0, reference[:, np.maximum(place, 0)], np.nan)
    return difference(values, matched, signed=is_signed(quantity))
