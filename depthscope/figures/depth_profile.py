"""Depth profile, the numbers: a quantity against sublayers at one step of each run, and at pinned steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.bands import banded_runs
from depthscope.figures.depth_map import MapOptions, depth_map_data
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.limits import Limits, limits_of
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import Alignment, aligned_step, recorded_steps, row_for
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
    shown_values,
)
from depthscope.figures.value_axis import ValueAxis, value_axis
from depthscope.quantities import quantity as look_up
from depthscope.quantities import readable_layers

NO_STEP = -1
GRADIENT = "grad_write_rms"
"""Beside the quantity chosen: every sublayer of every design has a write."""


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """What a depth profile shows."""

    quantity: str = "state_logrms"
    """Any quantity over sublayers; logarithms are shown as their exponential."""
    mode: Mode = "absolute"
    step: int | None = None
    """Each run shows its newest row at or before this step; None means its newest row."""
    pins: Sequence[int] = ()
    """More steps, of the runs in `pinned_runs` only."""
    pinned_runs: Sequence[str] | None = None
    """Ids of the runs that show pins; None: the only one or two runs there are."""
    baseline: str | None = None
    """Id of the run that differences are taken from; None: the first."""
    align: Alignment = "step"
    """What `step` of the baseline is matched by in other runs."""
    focus: str | None = None
    """Id of the run whose residual blocks are banded; None: blocks on which the runs agree."""
    robust: bool = True
    """Whether the value axis is held still by the middle 98 % of all recorded values, or by all of them."""


def profile_panels(quantity: str, mode: Mode) -> tuple[tuple[str, Mode], ...]:
    """Return the (quantity, mode) of the profiles that stand side by side on the page and in an export."""
    gradient: Mode = "absolute" if quantity_shown(quantity, mode) != quantity else mode
    return (quantity, mode), (GRADIENT, gradient)


def depth_profile_data(runs: Sequence[ReadableRun], options: ProfileOptions) -> Labelled:
    """Return per run an array (moment, layer) in shown units.

    Moment 0 is the step asked for, the others are pinned steps. The coordinate `step` (moment) holds the row
    that was found, -1 where the run had none yet (its values are NaN). `reachable` (layer) says which entries
    the run's design can have at all.
    """
    shown = quantity_shown(options.quantity, options.mode)
    baseline = next((run for run in runs if run.id == options.baseline), runs[0] if runs else None)
    pinned = options.pinned_runs
    if pinned is None:
        pinned = [run.id for run in runs] if len(runs) <= 2 else []

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, shown)
        asked = [aligned_step(run, baseline, options.step, options.align)]
        if run.id in pinned and not (options.mode == "difference" and run is baseline):
            asked += [int(pin) for pin in options.pins]
        values, found = _rows(run, shown, asked)
        if options.mode == "ratio":
            ratios = ratio_to_first(values, axis=-1)
            require_ratio(ratios, values, shown)
            values = ratios
        if options.mode == "difference":
            values = _minus_baseline(values, found, run, baseline, shown, options)
        return _labelled(run, shown, options.mode, values, found)

    arrays, absent, names = per_run(runs, part)
    title, note = heading(options.quantity, options.mode)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": shown,
            "mode": options.mode,
            "title": title,
            "note": note,
            "signed": is_signed(options.quantity, options.mode),
            "baseline": None if baseline is None else baseline.id,
            "align": options.align,
            "banded": banded_runs(arrays, options.focus),
            "held": _held(runs, options),
        },
        references=_references(arrays, runs, shown, options.mode),
    )


def profile_axis(data: Labelled, *, log: bool) -> ValueAxis:
    """Return the value axis of `depth_profile_data`: it holds every line drawn, and stands still over steps."""
    return value_axis(
        [*data.arrays.values(), *data.references.values()],
        log=log,
        signed=data.attributes["signed"],
        held=data.attributes["held"],
    )


def _held(runs: Sequence[ReadableRun], options: ProfileOptions) -> dict[str, Limits | None]:
    """Return the range of all records after each run's first tenth, on a log and on a linear axis.

    The axis stands still with it while the step moves; the start of training would leave most of it empty.
    """
    asked = MapOptions(quantity=options.quantity, mode=options.mode, baseline=options.baseline)
    maps = depth_map_data(runs, asked).arrays.values()
    settled = [array.isel(column=slice(array.sizes["column"] // 10, None)) for array in maps]
    return {
        "log": limits_of(settled, robust=options.robust, log=True),
        "linear": limits_of(settled, robust=options.robust),
    }


def _rows(run: ReadableRun, quantity: str, asked: Sequence[int | None]) -> tuple[FloatArray, list[int]]:
    steps = recorded_steps(run, quantity)
    if steps.size == 0:
        raise Absent("no step is recorded yet")
    found = [row_for(steps, step) for step in asked]
    rows = np.full((len(asked), run.layout.layers), np.nan)
    for place, step in enumerate(found):
        if step is not None:
            row = run.read(quantity, start=step, stop=step + 1)
            rows[place] = shown_values(row.isel(step=0).values, quantity)
    return rows, [NO_STEP if step is None else step for step in found]


def _minus_baseline(
    values: FloatArray,
    found: Sequence[int],
    run: ReadableRun,
    baseline: ReadableRun | None,
    quantity: str,
    options: ProfileOptions,
) -> FloatArray:
    assert baseline is not None, "a difference needs at least the run itself"
    require(baseline, quantity)
    if run.layout.layers != baseline.layout.layers:
        raise Absent(
            f"has {run.layout.layers} sublayers, the baseline {baseline.name} has {baseline.layout.layers}"
        )
    asked = found if options.align == "step" else [options.step, *found[1:]]
    reference, _ = _rows(baseline, quantity, asked)
    return difference(values, reference, signed=is_signed(quantity))


def _labelled(
    run: ReadableRun, quantity: str, mode: Mode, values: FloatArray, steps: Sequence[int]
) -> xr.DataArray:
    layout = run.layout
    return xr.DataArray(
        values,
        dims=("moment", "layer"),
        coords={
            "step": ("moment", np.asarray(steps, dtype=np.int64)),
            "layer": np.arange(1, layout.layers + 1),
            "layer_name": ("layer", np.asarray(layout.layer_names)),
            "layer_kind": ("layer", np.asarray(layout.layer_kinds)),
            "residual_block": ("layer", np.asarray(layout.residual_block)),
            "reachable": ("layer", np.asarray(readable_layers(look_up(quantity), layout), dtype=bool)),
        },
        name=quantity,
        attrs={
            **look_up(quantity).attributes(),
            "mode": mode,
            "design": layout.design,
            "sampled": is_sampled(run, quantity),
        },
    )


def _references(
    arrays: dict[str, xr.DataArray], runs: Sequence[ReadableRun], shown: str, mode: Mode
) -> dict[str, xr.DataArray]:
    """Return the curve of equal uncorrelated writes, where it means something for the runs drawn."""
    drawn = [run for run in runs if run.id in arrays]
    layers = max((run.layout.layers for run in drawn), default=0)
    layer = np.arange(1, layers + 1)
    if mode in ("ratio", "difference"):
        return {}
    if shown == "fresh_share" and layers:
        return {"1/(l+1)": xr.DataArray(1 / (layer + 1.0), dims="layer", coords={"layer": layer})}
    if shown == "write_ratio" and any(all(run.layout.additive) for run in drawn):
        return {"1/√l": xr.DataArray(1 / np.sqrt(layer), dims="layer", coords={"layer": layer})}
    return {}
