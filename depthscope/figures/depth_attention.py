"""Depth attention, the numbers: weight and contribution of every source in every target's read, at one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.effects import Cut, measured_beside
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.limits import Limits, shared_limits
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import Alignment, aligned_step, recorded_row, recorded_steps, row_for
from depthscope.figures.shown import FloatArray, require
from depthscope.figures.target_rows import target_coordinates, target_kinds
from depthscope.quantities import DepthLayout, reachable
from depthscope.quantities import quantity as look_up

Targets = Literal["together", "attention", "mlp"]
TARGETS: tuple[Targets, ...] = ("together", "attention", "mlp")
View = Literal["mean", "spread", "uniform", "local", "difference"]
VIEWS: tuple[View, ...] = ("mean", "spread", "uniform", "local", "difference")
PARTS = ("weight", "contribution")
_QUANTITIES = ("depth_attention", "depth_contribution")


@dataclass(frozen=True, kw_only=True)
class DepthAttentionOptions:
    """What a depth-attention figure shows."""

    step: int | None = None
    """Each run shows its newest record at or before this step; None means its newest record."""
    targets: Targets = "together"
    """`attention` and `mlp` keep the reads in front of that kind of sublayer only."""
    view: View = "mean"
    """`spread`: standard deviation over tokens in place of the weight. `uniform`: minus 1/n_sources.
    `local`: each target's newest source and the embedding hidden, so that skips show. `difference`: minus
    another record, see `reference_step` and `baseline`."""
    reference_step: int | None = None
    """In a difference: the step of the same run that is taken off."""
    baseline: str | None = None
    """In a difference without `reference_step`: id of the run that is taken off; None: the first."""
    align: Alignment = "step"
    """What `step` of the baseline is matched by in other runs."""
    cut: Cut = "any"
    """Whose effects stand beside the maps: what takes the place of a source that is cut."""


def depth_attention_data(runs: Sequence[ReadableRun], options: DepthAttentionOptions) -> Labelled:
    """Return per run an array (part, target, source), part = weight and contribution.

    NaN where a target cannot read a source. Coordinates: ``step``; over target: ``target`` (sublayer, L + 1 is
    the final read), ``target_name``, ``target_kind`` (attention, mlp, other, output), ``n_sources``,
    ``entropy`` (0 to 1, NaN at one source), ``partial`` (column with the unfinished sum of the target's block,
    -1 for none), ``starts_block`` (a block boundary or the final read lies before this row); over source:
    ``source`` (from 0), ``source_name``; ``reachable`` and ``hidden`` (target, source); ``mass`` (part, source)
    is the mean over the targets shown, a source that cannot be read counted as 0. Where the run has a sweep also
    ``effect`` and ``effect_interval`` (target, source): the loss change when that source of that target is cut, NaN
    where it is not measured; the attributes ``measured`` and ``sweep_step`` say of what, ``sweep_damaged`` which file of it cannot be read.
    """
    baseline = next((run for run in runs if run.id == options.baseline), runs[0] if runs else None)

    def part(run: ReadableRun) -> xr.DataArray:
        require(run, "depth_attention")
        step = aligned_step(run, baseline, options.step, options.align)
        values, found, absent = _parts(run, step)
        if options.view == "spread":
            require(run, "depth_attention_std")
            values[0] = recorded_row(run, "depth_attention_std", found)
        if options.view == "difference":
            values = values - _reference(run, baseline, found, values.shape, options)
        return _labelled(run, values, found, options, absent)

    arrays, missing, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=missing,
        names=names,
        attributes={
            "quantity": "depth_attention",
            "mode": options.view,
            "title": "Depth attention",
            "note": _NOTES[options.view],
            "signed": is_difference(options.view),
            "targets": options.targets,
            "baseline": None if baseline is None else baseline.id,
        },
    )


_NOTES = {
    "mean": "mean over tokens",
    "spread": "weight: standard deviation over tokens; contribution: mean",
    "uniform": "minus 1/number of sources",
    "local": "newest source and embedding hidden",
    "difference": "difference",
}


def is_difference(view: View) -> bool:
    """Return whether the weights shown may be below zero."""
    return view in ("uniform", "difference")


def attention_limits(arrays: Sequence[xr.DataArray], part: str, *, signed: bool) -> Limits | None:
    """Return the common colour range of a part, as `shared_limits` of its values.

    Targets with one source are left out: their weight and contribution are 1 whatever the model learns.
    """
    rows = [
        np.asarray(array.sel(part=part).values)[array["n_sources"].values > 1].ravel() for array in arrays
    ]
    return shared_limits(rows, signed=signed)


def _parts(run: ReadableRun, step: int | None) -> tuple[FloatArray, int, str]:
    """Return weight and contribution [2, target, source], their step, and why there is no contribution."""
    found = row_for(recorded_steps(run, "depth_attention"), step)
    if found is None:
        raise Absent("no depth attention is recorded yet" if step is None else f"no record up to step {step}")
    weight = recorded_row(run, "depth_attention", found)
    absent = ""
    if "depth_contribution" in run.quantities:
        contribution = recorded_row(run, "depth_contribution", found)
    else:
        absent = run.missing.get("depth_contribution", "contribution was not recorded")
        contribution = np.full_like(weight, np.nan)
    return np.stack([weight, contribution]), found, absent


def _reference(
    run: ReadableRun,
    baseline: ReadableRun | None,
    step: int,
    shape: tuple[int, ...],
    options: DepthAttentionOptions,
) -> FloatArray:
    if options.reference_step is not None:
        return _parts(run, options.reference_step)[0]
    assert baseline is not None, "a difference needs at least the run itself"
    if "depth_attention" not in baseline.quantities:
        raise Absent(f"the baseline {baseline.name} has no depth attention; pin a step to compare with it")
    values = _parts(baseline, step if options.align == "step" else options.step)[0]
    if values.shape != shape or baseline.layout.sources != run.layout.sources:
        raise Absent(f"reads other sources than the baseline {baseline.name}; pin a step to compare with it")
    return values


def _labelled(
    run: ReadableRun, values: FloatArray, step: int, options: DepthAttentionOptions, absent: str
) -> xr.DataArray:
    layout = run.layout
    n_sources = np.array([len(columns) for columns in layout.sources])
    held = np.asarray(reachable(look_up("depth_attention"), layout), dtype=bool)
    hidden = np.zeros_like(held)
    if options.view == "uniform":
        values = values - 1 / n_sources[:, None]
    if options.view == "local":
        hidden[:, 0] = True
        hidden[np.arange(len(n_sources)), [max(columns) for columns in layout.sources]] = True
        hidden &= held
    values = np.where(held & ~hidden, values, np.nan)
    shown = np.flatnonzero((target_kinds(layout) == options.targets) | (options.targets == "together"))
    entropy = _summary(run, "depth_attention_entropy", step, len(n_sources))
    counted = np.nan_to_num(values[:, shown])
    effects, about = _effects(run, shown, options)
    return xr.DataArray(
        values[:, shown],
        dims=("part", "target", "source"),
        coords={
            "step": step,
            "part": list(PARTS),
            **target_coordinates(layout, shown),
            "n_sources": ("target", n_sources[shown]),
            "entropy": ("target", entropy[shown]),
            "partial": ("target", np.array(layout.partial or (-1,) * len(n_sources))[shown]),
            "source": np.arange(len(layout.source_names)),
            "source_name": ("source", np.array(layout.source_names)),
            "reachable": (("target", "source"), held[shown]),
            "hidden": (("target", "source"), hidden[shown]),
            "mass": (("part", "source"), counted.mean(axis=1) if shown.size else counted.sum(axis=1)),
            **effects,
        },
        name="depth_attention",
        attrs={
            **look_up("depth_attention").attributes(),
            "mode": options.view,
            "design": layout.design,
            "source_axis": source_axis(layout),
            "contribution_absent": absent,
            **about,
        },
    )


def _effects(
    run: ReadableRun, shown: npt.NDArray[np.intp], options: DepthAttentionOptions
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the coordinates with the effects of the targets `shown`, and the attributes that say what was measured."""
    found, about = measured_beside(run, step=options.step, cut=options.cut)
    if found is None:
        return {}, about
    pair = ("target", "source")
    effects = {"effect": found.values, "effect_interval": found["interval"].values}
    kept = {name: (pair, values[shown]) for name, values in effects.items()}
    return kept, about


def _summary(run: ReadableRun, quantity: str, step: int, targets: int) -> FloatArray:
    if quantity not in run.quantities:
        return np.full(targets, np.nan)
    return recorded_row(run, quantity, step)


def source_axis(layout: DepthLayout) -> str:
    """Return what the sources after the embedding are: ``block`` or ``sublayer``."""
    names = layout.source_names[1:] or ("sublayer 1",)
    return names[-1].partition(" ")[0]
