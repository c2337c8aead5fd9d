"""Effects, the numbers: what cutting each source of each target does to the loss, beside weight and contribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr

from depthscope.analysis import chosen_sweep, effect_map, steps_apart
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.limits import Limits
from depthscope.figures.readable import ReadableRun
from depthscope.figures.target_rows import target_coordinates
from depthscope.figures.within import require_within
from depthscope.quantities import DepthLayout
from depthscope.store import RunError, Sweep

Against = Literal["weight", "contribution"]
AGAINST: tuple[Against, ...] = ("weight", "contribution")
Cut = Literal["any", "renormalise", "zero", "mean", "resample"]
CUTS: tuple[Cut, ...] = ("any", "renormalise", "zero", "mean", "resample")
NO_EFFECTS = "no effect is measured"
REMEDY = "type: depthscope causal RUN"
_PERCENTILE = 90.0


@dataclass(frozen=True, kw_only=True)
class EffectsOptions:
    """Which effects are shown, and against what."""

    step: int | None = None
    """Each run shows its sweep nearest to this step, of two the later; None means its newest."""
    cut: Cut = "any"
    """What stands in place of the source that is cut; `any`: whatever was measured."""
    against: Against = "weight"
    """The x axis of the scatter."""
    least_distance: int = 2
    """Pairs nearer than this are in the map alone; 1 is the newest source that a target can read."""

    def __post_init__(self) -> None:
        require_within("least_distance", self.least_distance, 1)


class DamagedSweep(Absent):
    """There are effects, and a file of theirs cannot be read."""


def effects_data(runs: Sequence[ReadableRun], options: EffectsOptions) -> Labelled:
    """Return per run an array (target, source) of loss changes in nats a token, positive where the cut hurts.

    NaN where nothing is measured. Coordinates over (target, source): ``interval`` (half width of the 95 % interval
    over batches), ``batches``, ``weight``, ``contribution`` (both of the record that the checkpoint belongs to),
    ``distance``, ``reachable``, ``shown`` (a point of the scatter: far enough, of a target with two sources or more,
    with a weight or contribution); over target those of `target_coordinates` and ``n_sources``; over source
    ``source`` and ``source_name``. Attributes: ``sweep``, ``mode``, ``sweep_step``, ``record_step``, ``note``,
    ``least_distance``.
    """
    arrays, absent, names = per_run(runs, lambda run: measured_effects(run, options))
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": "loss_change",
            "title": "Loss change when cut",
            "note": "nats a token, positive where the cut hurts",
            "signed": True,
            "mode": "absolute",
            "against": options.against,
        },
    )


def measured_effects(run: ReadableRun, options: EffectsOptions) -> xr.DataArray:
    """Return the array of one run, see `effects_data`; `Absent` where nothing is measured.

    Attributes: ``sweep`` and its ``mode``, ``sweep_step`` and ``note``; ``record_step`` of weight and contribution,
    None where the run has none of these targets and sources; ``other_mode`` and ``largest_difference``: how far apart
    zero and renormalise are where both are measured at that step, NaN where not.
    """
    mode = None if options.cut == "any" else options.cut
    sweeps = run.sweeps()
    sweep = chosen_sweep(sweeps, step=options.step, mode=mode)
    if sweep is None:
        some = chosen_sweep(sweeps) is not None
        raise Absent(f"{NO_EFFECTS} with mode {mode}" if some else f"{NO_EFFECTS}; {REMEDY}")
    try:
        data = effect_map(run, sweep)
    except RunError as error:
        raise DamagedSweep(str(error)) from None
    if not np.isfinite(data["effect"].values).any():
        raise Absent(f"{NO_EFFECTS} yet: the sweep {sweep.name} has just begun")
    other = {"zero": "renormalise", "renormalise": "zero"}.get(sweep.mode, "")
    return _labelled(run.layout, data, options).assign_attrs(
        sweep=sweep.name,
        mode=sweep.mode,
        sweep_step=sweep.step,
        record_step=data.attrs["record_step"],
        note=str(sweep.attributes.get("note", "")),
        other_mode=other,
        largest_difference=_largest_difference(data, sweep, sweeps, other),
    )


def measured_beside(
    run: ReadableRun, *, step: int | None, cut: Cut
) -> tuple[xr.DataArray | None, dict[str, Any]]:
    """Return the effects of the very pairs whose weights `run` recorded, None where none are, and attributes of them.

    ``measured`` says of what, empty without any, at ``sweep_step``; ``sweep_damaged`` says which file of a sweep cannot
    be read: what needs no sweep is shown all the same.
    """
    none = {"measured": "", "sweep_step": None, "sweep_damaged": ""}
    try:
        found = measured_effects(run, EffectsOptions(step=step, cut=cut))
    except DamagedSweep as error:
        return None, {**none, "sweep_damaged": str(error)}
    except Absent:
        return None, none
    if found.attrs["record_step"] is None:
        return None, none
    return found, {**none, "measured": sweep_words(found), "sweep_step": found.attrs["sweep_step"]}


def _largest_difference(data: xr.Dataset, sweep: Sweep, sweeps: Sequence[Sweep], other: str) -> float:
    """Return how far the effects of two modes on the same weights and data are apart; NaN without the other mode.

    NaN also where the other is damaged: it takes nothing from the sweep that is shown.
    """
    alike = [each for each in sweeps if each.step == sweep.step and _measured_on(each) == _measured_on(sweep)]
    twin = chosen_sweep(alike, mode=other) if other else None
    if twin is None:
        return float("nan")
    try:
        other_effect = twin.read(("loss_change",))["effect"].values
    except RunError:
        return float("nan")
    both = np.abs(other_effect - data["effect"].values)
    return float(np.nanmax(both)) if np.isfinite(both).any() else float("nan")


def _measured_on(sweep: Sweep) -> tuple[Any, ...]:
    identity = sweep.attributes.get("identity")
    told = identity if isinstance(identity, Mapping) else {}
    return tuple(told.get(name) for name in ("weights", "data", "targets", "sources"))


def effect_limits(arrays: Sequence[xr.DataArray]) -> Limits | None:
    """Return the common colour range of effects: symmetric, up to the 90th percentile of sizes; of runs, the median.

    A few targets, the final read above all, lose ten times what the others do, and designs differ as much: with the
    largest for an end the others were pale.
    """
    sizes = [np.abs(array.values[np.isfinite(array.values)]) for array in arrays]
    sizes = [size for size in sizes if size.size]
    if not sizes:
        return None
    reach = float(np.median([np.percentile(size, _PERCENTILE) for size in sizes]))
    reach = reach or max(float(size.max()) for size in sizes) or 1.0
    digits = 1 - int(np.floor(np.log10(reach)))
    reach = float(np.round(np.ceil(reach * 10.0**digits - 1e-9) / 10.0**digits, max(digits, 0)))
    values = [array.values for array in arrays]
    return Limits(
        low=-reach,
        high=reach,
        clips_low=any(bool((each < -reach).any()) for each in values),
        clips_high=any(bool((each > reach).any()) for each in values),
    )


def paired_words(array: xr.DataArray) -> str:
    """Say what was measured, as `sweep_words` does, and beside weights of which step where that is another."""
    apart = steps_apart(array.attrs["sweep_step"], array.attrs["record_step"])
    return f"{array.attrs['mode']}, {_batches(array)}, {apart}" if apart else sweep_words(array)


def width_words(arrays: Sequence[xr.DataArray], against: str) -> str:
    """Name what effects are drawn against: with its step where that is another than the effects', of all runs the same."""
    steps = {(array.attrs["sweep_step"], array.attrs["record_step"]) for array in arrays}
    if len(steps) != 1 or not steps_apart(*next(iter(steps))):
        return against
    return f"{against} of step {next(iter(steps))[1]:,}"


def pairs_words(array: xr.DataArray) -> str:
    """Say which pairs are points and enter the rank correlations."""
    least = int(array.attrs["least_distance"])
    return f"pairs of reads with 2 sources or more{f', at distance {least} or more' if least > 1 else ''}"


def sweep_words(array: xr.DataArray) -> str:
    """Say what was measured: ``renormalise, step 300, 8 batches``."""
    step = array.attrs["sweep_step"]
    where = "at an unknown step" if step is None else f"step {step:,}"
    return f"{array.attrs['mode']}, {where}, {_batches(array)}"


def _batches(array: xr.DataArray) -> str:
    batches = int(array["batches"].values.max())
    return f"{batches} batch{'' if batches == 1 else 'es'}"


def _labelled(layout: DepthLayout, data: xr.Dataset, options: EffectsOptions) -> xr.DataArray:
    exists = data["exists"].values
    values = np.where(exists, data["effect"].values, np.nan)
    x = data[options.against].values
    far = data["distance"].values >= options.least_distance
    several = data["n_sources"].values[:, None] > 1
    pair = ("target", "source")
    return xr.DataArray(
        values,
        dims=pair,
        coords={
            **_target_coordinates(layout, data),
            "n_sources": ("target", _reads(layout, data)),
            "source": np.arange(data.sizes["source"]),
            "source_name": ("source", data["source_name"].values),
            "interval": (pair, data["effect_interval"].values),
            "batches": (pair, data["batches_measured"].values),
            "weight": (pair, data["weight"].values),
            "contribution": (pair, data["contribution"].values),
            "distance": (pair, data["distance"].values),
            "reachable": (pair, _reachable(layout, data)),
            "shown": (pair, far & several & np.isfinite(values) & np.isfinite(x)),
        },
        name="loss_change",
        attrs={
            "long_name": "loss change when cut",
            "units": "nats/token",
            "design": layout.design,
            "least_distance": options.least_distance,
            "source_axis": str(data["source_name"].values[-1]).partition(" ")[0],
        },
    )


def _same(layout: DepthLayout, data: xr.Dataset) -> bool:
    """Return whether the sweep's targets and sources are those that the run recorded."""
    named = (tuple(data["target_name"].values), tuple(data["source_name"].values))
    return bool(layout.sources) and named == (layout.target_names, layout.source_names)


def _reachable(layout: DepthLayout, data: xr.Dataset) -> Any:
    """Return which source a target reads: also a target's only source, of which there is no renormalised cut."""
    held = data["exists"].values.copy()
    if _same(layout, data):
        for row, columns in enumerate(layout.sources):
            held[row, list(columns)] = True
    return held


def _reads(layout: DepthLayout, data: xr.Dataset) -> Any:
    return _reachable(layout, data).sum(axis=1)


def _target_coordinates(layout: DepthLayout, data: xr.Dataset) -> dict[str, Any]:
    """Return the coordinates of the rows; targets that the run knows by other names have no kind and no blocks."""
    names = data["target_name"].values
    if tuple(names) == layout.target_names:
        return target_coordinates(layout, np.arange(len(names)))
    last = names == "output"
    return {
        "target": data["target"].values,
        "target_name": ("target", names),
        "target_kind": ("target", np.where(last, "output", "other")),
        "starts_block": ("target", last),
    }
