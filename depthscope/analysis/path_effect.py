"""What a run's routing weights say beside what cutting them does: the two need not agree (arXiv 2606.13168)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.analysis.fit import FloatArray
from depthscope.analysis.readable import ReadableRun
from depthscope.analysis.records import Records
from depthscope.analysis.sweep_choice import SOURCES, chosen_sweep
from depthscope.store import Sweep


@dataclass(frozen=True, kw_only=True)
class PathEffect:
    """One source of one target: how it is weighed, what it carries, and what its cut does."""

    target: int
    """Sublayer, L + 1 for the final read; with an outer state its residual block."""
    target_name: str
    source: int
    """Column of the source axis."""
    source_name: str
    distance: int
    """1: the newest source that the target reads."""
    n_sources: int
    weight: float
    """NaN where none is recorded."""
    contribution: float
    effect: float
    """Loss change when cut, nats a token: positive where the cut hurts."""
    interval: float
    """Half width of its 95 % interval over batches; NaN for one batch."""
    measured: int
    """Batches."""


def effect_map(run: ReadableRun, sweep: Sweep) -> xr.Dataset:
    """Return a sweep of sources with what `run` recorded of each pair, over (target, source).

    ``effect`` and ``effect_interval`` in nats a token, ``batches_measured``, ``exists``; ``weight`` and
    ``contribution`` of the last record at or before the sweep's step: before the first they are NaN, and so they are
    where the run's targets and sources are not those of the sweep; ``distance`` (1: the newest source that a target
    reads, 0: it does not read it) and over target ``n_sources``. The attribute ``record_step`` is that record's step,
    None without one.

    Raises:
        ValueError: the sweep measured something else than sources.
    """
    if sweep.kind != SOURCES:
        raise ValueError(
            f"the sweep {sweep.name!r} measured {sweep.kind!r}; expected one of kind {SOURCES!r}"
        )
    data = sweep.read(("loss_change", "exists")).drop_vars("loss_change")
    exists = data["exists"].values.astype(bool)
    n_sources = exists.sum(axis=1)
    newer = np.cumsum(exists[:, ::-1], axis=1)[:, ::-1]
    weight, step = _recorded(run, "depth_attention", data, sweep.step)
    contribution, _ = _recorded(run, "depth_contribution", data, sweep.step)
    pair = ("target", "source")
    return data.assign(
        exists=(pair, exists),
        distance=(pair, np.where(exists, newer, 0)),
        n_sources=("target", n_sources),
        weight=(pair, weight),
        contribution=(pair, contribution),
    ).assign_attrs(record_step=step)


def path_effects(run: ReadableRun, sweep: Sweep) -> list[PathEffect]:
    """Return every measured pair of `effect_map`, row by row; ValueError for a sweep of something else."""
    data = effect_map(run, sweep)
    columns = {
        name: data[name].values
        for name in ("weight", "contribution", "effect", "effect_interval", "batches_measured", "distance")
    }
    pairs = np.argwhere(data["exists"].values & (columns["batches_measured"] > 0)).tolist()
    return [
        PathEffect(
            target=int(data["target"].values[row]),
            target_name=str(data["target_name"].values[row]),
            source=column,
            source_name=str(data["source_name"].values[column]),
            distance=int(columns["distance"][row, column]),
            n_sources=int(data["n_sources"].values[row]),
            weight=float(columns["weight"][row, column]),
            contribution=float(columns["contribution"][row, column]),
            effect=float(columns["effect"][row, column]),
            interval=float(columns["effect_interval"][row, column]),
            measured=int(columns["batches_measured"][row, column]),
        )
        for row, column in pairs
    ]


def steps_apart(effect: int | None, weights: int | None) -> str:
    """Say of which steps effects and recorded weights are where these are not one step; empty where they are."""
    if weights is None or effect == weights:
        return ""
    when = "an unknown step" if effect is None else f"step {effect:,}"
    return f"effect of {when} beside weights of step {weights:,}"


def widest_paths(effects: Sequence[PathEffect], count: int, least_distance: int = 2) -> list[PathEffect]:
    """Return the pairs at some distance with the largest weights, largest first; pairs without a weight are left out."""
    far = [each for each in effects if each.distance >= least_distance and np.isfinite(each.weight)]
    return sorted(far, key=lambda each: -each.weight)[:count]


def rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; NaN below three pairs or without spread.

    Pairs of which one value is not finite are left out.
    """
    both = np.isfinite(one) & np.isfinite(other)
    if both.sum() < 3:
        return float("nan")
    first, second = _ranks(one[both]), _ranks(other[both])
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def effects_over_steps(sweeps: Sequence[Sweep], kind: str = SOURCES, mode: str | None = None) -> xr.Dataset:
    """Return ``effect`` and ``effect_interval`` (step, target, source) of all sweeps of one kind and mode.

    Sweeps without a step or of other sizes than the newest are left out, and of several of one step all but the one
    that `chosen_sweep` takes; without `mode` that of the newest. Empty where there is none.
    """
    stepped = [sweep for sweep in sweeps if sweep.kind == kind and sweep.step is not None]
    newest = chosen_sweep(stepped, kind=kind)
    if newest is None:
        return xr.Dataset()
    mode = newest.mode if mode is None else mode
    kept: dict[int, xr.Dataset] = {}
    for step in sorted({sweep.step for sweep in stepped if sweep.step is not None}):
        one = chosen_sweep([sweep for sweep in stepped if sweep.step == step], kind=kind, mode=mode)
        if one is not None:
            kept[step] = one.read(("loss_change",))[["effect", "effect_interval"]]
    sizes = kept[max(kept)].sizes if kept else {}
    same = {step: data for step, data in kept.items() if data.sizes == sizes}
    if not same:
        return xr.Dataset()
    return xr.concat(list(same.values()), xr.DataArray(list(same), dims="step", name="step"), join="override")


def _recorded(
    run: ReadableRun, name: str, data: xr.Dataset, step: int | None
) -> tuple[FloatArray, int | None]:
    """Return a recorded map [target, source] at a sweep's step and the step of the record; NaN where none fits."""
    missing = np.full((data.sizes["target"], data.sizes["source"]), np.nan)
    layout = run.layout
    named = (layout.target_names, layout.source_names)
    if named != (tuple(data["target_name"].values), tuple(data["source_name"].values)):
        return missing, None
    newest = Records(run, step).newest(name)
    return (missing, None) if newest is None else (newest.newest, newest.newest_step)


def _ranks(values: FloatArray) -> FloatArray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray(((ends - count + 1 + ends) / 2)[place])
