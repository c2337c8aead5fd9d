"""Mixing, the numbers: what every read is made of, by origin, at one step; one kind of map for any design."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import xarray as xr

from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.limits import Limits, shared_limits
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import Alignment, aligned_step, recorded_row, recorded_steps, row_for
from depthscope.figures.shown import FloatArray, require
from depthscope.figures.target_rows import target_coordinates
from depthscope.quantities import quantity as look_up

Share = Literal["contribution", "coefficient"]
SHARES: tuple[Share, ...] = ("contribution", "coefficient")
MixingMode = Literal["absolute", "difference"]
SHARE_QUANTITY: Mapping[Share, str] = MappingProxyType(
    {"contribution": "mixing_contribution", "coefficient": "mixing_coefficient"}
)
NO_COEFFICIENTS = (
    "what lies between its origins and its reads is no number: a matrix, or a gain for each feature"
)
_MOST_TOP, _LEAST_TOP = 10.0, 2.5
"""Ends of the scale of cancellation."""


@dataclass(frozen=True, kw_only=True)
class MixingOptions:
    """What a mixing figure shows."""

    step: int | None = None
    """Each run shows its newest record at or before this step; None means its newest record."""
    share: Share = "contribution"
    """`coefficient`: the factor with which a read holds an origin, in designs that scale by numbers."""
    mode: MixingMode = "absolute"
    """`difference`: minus another record, see `reference_step` and `baseline`."""
    reference_step: int | None = None
    """In a difference: the step of the same run that is taken off."""
    baseline: str | None = None
    """In a difference without `reference_step`: id of the run that is taken off; None: the first."""
    align: Alignment = "step"
    """What `step` of the baseline is matched by in other runs."""


def mixing_data(runs: Sequence[ReadableRun], options: MixingOptions) -> Labelled:
    """Return per run an array (target, origin): the share of each origin in each read.

    NaN where a read comes before an origin, where it was not taken, and where no coefficient is defined.
    Coordinates: ``step``; over target those of `target_coordinates`, ``cancellation`` and ``sum`` (of the
    contributions of the row, 1 but for rounding); over origin ``origin`` (0 the embedding, then sublayers,
    L + 1 the constant) and ``origin_name``; ``reachable`` (target, origin).
    """
    baseline = next((run for run in runs if run.id == options.baseline), runs[0] if runs else None)
    against_run = options.mode == "difference" and options.reference_step is None

    def part(run: ReadableRun) -> xr.DataArray:
        if against_run and baseline is not None and run.id == baseline.id:
            raise Absent("it is the baseline")
        values, step = _values(run, options, aligned_step(run, baseline, options.step, options.align))
        if options.reference_step is not None and options.mode == "difference":
            values = values - _values(run, options, options.reference_step)[0]
        elif options.mode == "difference":
            assert baseline is not None, "a difference needs at least the run itself"
            values = values - _of_baseline(run, baseline, step, options)
        return _labelled(run, values, step, options)

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": SHARE_QUANTITY[options.share],
            "share": options.share,
            "mode": options.mode,
            "title": "Mixing",
            "note": "difference" if options.mode == "difference" else "",
            "signed": True,
            "baseline": baseline.id if against_run and baseline is not None else None,
            "reference": "" if against_run else f"step {options.reference_step}",
        },
    )


def mixing_limits(arrays: Sequence[xr.DataArray]) -> Limits | None:
    """Return the common colour range, as `shared_limits` without the largest 5 %, of contributions -1 to 1 at most.

    The first read is left out: it is the embedding alone, as most of the next few is; their 5 % would else make the
    many reads behind them pale. A contribution beyond 1 is more than the whole read, in a read whose terms cancel.
    For coefficients the final read is left out too: it may be a sum over streams.
    """
    contributions = all(array.name == SHARE_QUANTITY["contribution"] for array in arrays)
    rows = [array.values[1 : None if contributions else -1].ravel() for array in arrays]
    found = shared_limits(rows, signed=True, percentile=95.0, most=1.0 if contributions else math.inf)
    if found is None:
        return None
    low, high = found.low, found.high
    clips = [(bool((array < low).any()), bool((array > high).any())) for array in arrays]
    return replace(found, clips_low=any(low for low, _ in clips), clips_high=any(high for _, high in clips))


def cancellation_top(arrays: Sequence[xr.DataArray]) -> float:
    """Return the common end of the scale of cancellation, which begins at 1: between 2.5 and 10."""
    found = [np.asarray(array["cancellation"].values) for array in arrays]
    highest = max([float(values[np.isfinite(values)].max(initial=1.0)) for values in found], default=1.0)
    return float(np.clip(np.ceil(2 * highest) / 2, _LEAST_TOP, _MOST_TOP))


def entry_of(run: ReadableRun, target: int | None, origin: int | None) -> tuple[int, int]:
    """Return the row and the column, from 0, of a target (None: the final read) and an origin (None: the constant).

    `Absent` where the run has no such sublayer, or where the read comes before the origin.
    """
    layers = run.layout.layers
    row = layers if target is None else target - 1
    column = layers + 1 if origin is None else origin
    for number in (target, origin):
        if number is not None and number > layers:
            raise Absent(f"it has {layers} sublayers, so none with number {number}")
    if origin is not None and origin > row:
        raise Absent(f"sublayer {target} reads before sublayer {origin} has written")
    return row, column


def _values(run: ReadableRun, options: MixingOptions, step: int | None) -> tuple[FloatArray, int]:
    """Return the values [target, origin] of a run's newest record at or before `step`, and its step."""
    name = SHARE_QUANTITY[options.share]
    require(run, name)
    found = row_for(recorded_steps(run, name), step)
    if found is None:
        raise Absent("no mixing is recorded yet" if step is None else f"no record up to step {step}")
    values = recorded_row(run, name, found)
    if np.isnan(values).all():
        undefined = options.share == "coefficient"
        raise Absent(NO_COEFFICIENTS if undefined else f"no value of mixing at step {found}")
    return values, found


def _of_baseline(run: ReadableRun, baseline: ReadableRun, step: int, options: MixingOptions) -> FloatArray:
    if run.layout.layers != baseline.layout.layers:
        raise Absent(
            f"it has {run.layout.layers} sublayers and the baseline {baseline.name} {baseline.layout.layers}; "
            "pin a step to compare with it"
        )
    try:
        return _values(baseline, options, step if options.align == "step" else options.step)[0]
    except Absent as reason:
        raise Absent(f"the baseline {baseline.name} has none: {reason}") from None


def _labelled(run: ReadableRun, values: FloatArray, step: int, options: MixingOptions) -> xr.DataArray:
    layout = run.layout
    held = run.read("mixing_contribution", start=step, stop=step + 1)
    shares = np.asarray(held.values[0], dtype=np.float64)
    taken = np.isfinite(shares).any(axis=1)
    size = (
        recorded_row(run, "mixing_cancellation", step)
        if "mixing_cancellation" in run.quantities
        else np.where(taken, np.nansum(np.abs(shares), axis=1), np.nan)
    )
    entry = look_up(SHARE_QUANTITY[options.share])
    coordinates: dict[str, Any] = {
        "step": step,
        **target_coordinates(layout, np.arange(layout.layers + 1)),
        "cancellation": ("target", size),
        "sum": ("target", np.where(taken, np.nansum(shares, axis=1), np.nan)),
        "origin": np.arange(layout.layers + 2),
        "origin_name": ("origin", np.array(layout.origin_names)),
        "reachable": (("target", "origin"), np.isfinite(shares)),
    }
    return xr.DataArray(
        values,
        dims=("target", "origin"),
        coords=coordinates,
        name=entry.name,
        attrs={
            **entry.attributes(),
            "mode": options.mode,
            "design": layout.design,
            "sample_tokens": held.attrs.get("sample_tokens", ""),
        },
    )
