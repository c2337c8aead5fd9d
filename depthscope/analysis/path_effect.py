"""What a run's routing weights say beside what cutting them does: the two need not agree (arXiv 2606.13168)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.analysis.fit import FloatArray
from depthscope.analysis.readable import ReadableRun
from depthscope.analysis.records import Records
from depthscope.store import Sweep

SOURCES = "sources"
"""The kind of sweep that cuts each source of each target."""


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


def path_effects(run: ReadableRun, sweep: Sweep) -> list[PathEffect]:
    """Return every measured pair of a sweep of sources, row by row, with what `run` recorded of it.

    Weight and contribution are those of the last record at or before the sweep's step: before the first they are NaN,
    and so they are where the run's targets and sources are not those of the sweep.

    Raises:
        ValueError: the sweep measured something else than sources.
    """
    if sweep.kind != SOURCES:
        raise ValueError(
            f"the sweep {sweep.name!r} measured {sweep.kind!r}; expected one of kind {SOURCES!r}"
        )
    data = sweep.read()
    effect, interval, measured = (
        data[name].values for name in ("effect", "effect_interval", "batches_measured")
    )
    weight, contribution = (
        _recorded(run, name, data, sweep.step) for name in ("depth_attention", "depth_contribution")
    )
    found = []
    for row, number in enumerate(data["target"].values.tolist()):
        columns = np.flatnonzero(data["exists"].values[row])
        for place, column in enumerate(columns):
            if measured[row, column]:
                found.append(
                    PathEffect(
                        target=int(number),
                        target_name=str(data["target_name"].values[row]),
                        source=int(column),
                        source_name=str(data["source_name"].values[column]),
                        distance=len(columns) - place,
                        n_sources=len(columns),
                        weight=float(weight[row, column]),
                        contribution=float(contribution[row, column]),
                        effect=float(effect[row, column]),
                        interval=float(interval[row, column]),
                        measured=int(measured[row, column]),
                    )
                )
    return found


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

    Sweeps without a step, of other sizes than the newest, or of a step that a later name repeats, are left out; without
    `mode` that of the newest. Empty where there is none.
    """
    stepped = [sweep for sweep in sweeps if sweep.kind == kind and sweep.step is not None]
    newest = max(stepped, key=lambda sweep: (sweep.step or 0, sweep.name), default=None)
    if newest is None:
        return xr.Dataset()
    mode = str(newest.attributes.get("mode")) if mode is None else mode
    alike = {sweep.step: sweep for sweep in stepped if sweep.attributes.get("mode") == mode}
    kept: dict[int, xr.Dataset] = {}
    for step in sorted(step for step in alike if step is not None):
        data = alike[step].read()[["effect", "effect_interval"]]
        kept[step] = data
    sizes = kept[max(kept)].sizes if kept else {}
    same = {step: data for step, data in kept.items() if data.sizes == sizes}
    if not same:
        return xr.Dataset()
    return xr.concat(list(same.values()), xr.DataArray(list(same), dims="step", name="step"), join="override")


def _recorded(run: ReadableRun, name: str, data: xr.Dataset, step: int | None) -> FloatArray:
    """Return a recorded map [target, source] at a sweep's step; NaN where the run has none that fits."""
    missing = np.full((data.sizes["target"], data.sizes["source"]), np.nan)
    layout = run.layout
    named = (layout.target_names, layout.source_names)
    if named != (tuple(data["target_name"].values), tuple(data["source_name"].values)):
        return missing
    records = Records(run, step)
    newest = records.newest(name)
    return missing if newest is None else newest.newest


def _ranks(values: FloatArray) -> FloatArray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray(((ends - count + 1 + ends) / 2)[place])
