"""Skip paths, the numbers: the distant sources that a run's targets weight well above uniform, as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from depthscope.analysis import SkipPath, list_skip_paths
from depthscope.figures.depth_attention import source_axis
from depthscope.figures.effects import Cut, measured_beside
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import recorded_steps, row_for
from depthscope.figures.shown import require
from depthscope.figures.within import require_within
from depthscope.quantities import DepthLayout
from depthscope.quantities import quantity as look_up

_NUMBERS = (
    "distance",
    "n_sources",
    "contribution",
    "times_uniform",
    "weight_only",
    "above",
    "first_step",
    "cadence",
    "records",
)


@dataclass(frozen=True, kw_only=True)
class SkipPathOptions:
    """Which skip paths are listed and drawn."""

    step: int | None = None
    """Only records at or before this step are looked at; None: all."""
    top: int | None = 12
    """Most paths of one run, largest weight first; None: all."""
    least_weight: float = 0.0
    """Paths below this weight are left out, on top of the criterion of a skip path."""
    least_distance: int = 2
    """Sources nearer than this are left out; 1 is the newest that a target can read."""

    cut: Cut = "any"
    """Whose effects stand beside the paths: what takes the place of a source that is cut."""

    def __post_init__(self) -> None:
        require_within("top", self.top, 1)
        require_within("least_weight", self.least_weight, 0, 1)
        require_within("least_distance", self.least_distance, 1)


def skip_paths_data(runs: Sequence[ReadableRun], options: SkipPathOptions) -> Labelled:
    """Return per run an array (path) of weights, largest first; of size 0 when no pair meets the criterion.

    Coordinates over path: ``target`` (sublayer, L + 1 is the final read), ``target_name``, ``source`` (column),
    ``source_name``, ``source_layer`` (where the source lies on the depth axis: 0 the embedding, a block at its
    last sublayer), ``distance`` in units of ``distance_unit`` (block, sublayer), ``n_sources``, ``contribution``,
    ``times_uniform``, ``weight_only``, ``above``, ``first_step``, ``cadence``, ``records`` (of the mean), ``shared_by``
    (runs among those given that have the same path, itself counted) and ``comparable`` (runs with the same sources);
    where a run has a sweep also ``effect`` and ``effect_interval``, the loss change when the path is cut, NaN where it
    is not measured. Attributes: ``layers``, ``found`` (before `top` and the other options), ``residual_block``,
    ``layer_kind`` (one entry a sublayer), ``step`` (of the newest record), ``measured`` (what the effects are of, empty
    without), ``sweep_step`` and ``sweep_damaged`` (which file of a sweep cannot be read).
    """
    found: dict[str, list[SkipPath]] = {}

    def collect(run: ReadableRun) -> xr.DataArray:
        require(run, "depth_attention")
        if recorded_steps(run, "depth_attention").size == 0:
            raise Absent("no depth attention is recorded yet")
        found[run.id] = list_skip_paths(run, step=options.step)
        return xr.DataArray(0.0)

    readable, absent, names = per_run(runs, collect)
    drawn = [run for run in runs if run.id in readable]
    arrays = {run.id: _labelled(run, drawn, found, options) for run in drawn}
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": "depth_attention",
            "title": "Skip paths",
            "note": "mean weight over the last tenth of records",
            "signed": False,
        },
    )


def _labelled(
    run: ReadableRun,
    drawn: Sequence[ReadableRun],
    found: dict[str, list[SkipPath]],
    options: SkipPathOptions,
) -> xr.DataArray:
    layout = run.layout
    kept = [
        path
        for path in found[run.id]
        if path.weight >= options.least_weight and path.distance >= options.least_distance
    ][: options.top]
    alike = [other for other in drawn if other.layout.sources == layout.sources]
    pairs = [{(path.target, path.source) for path in found[other.id]} for other in alike]
    effects, about = _effects(run, kept, options)
    shared = [sum((path.target, path.source) in other for other in pairs) for path in kept]
    return xr.DataArray(
        np.array([path.weight for path in kept], dtype=np.float64),
        dims="path",
        coords={
            "target": ("path", np.array([path.target for path in kept], dtype=np.int64)),
            "target_name": ("path", np.array([path.target_name for path in kept], dtype=np.str_)),
            "source": ("path", np.array([path.source for path in kept], dtype=np.int64)),
            "source_name": ("path", np.array([path.source_name for path in kept], dtype=np.str_)),
            "source_layer": (
                "path",
                np.array([source_layer(layout, path.source) for path in kept], dtype=np.int64),
            ),
            **{name: ("path", np.array([getattr(path, name) for path in kept])) for name in _NUMBERS},
            "distance_unit": ("path", np.array([source_axis(layout)] * len(kept), dtype=np.str_)),
            "shared_by": ("path", np.array(shared, dtype=np.int64)),
            "comparable": len(alike),
            **effects,
        },
        name="depth_attention",
        attrs={
            **look_up("depth_attention").attributes(),
            "design": layout.design,
            "layers": layout.layers,
            "step": row_for(recorded_steps(run, "depth_attention"), options.step),
            "found": len(found[run.id]),
            "residual_block": layout.residual_block,
            "layer_kind": layout.layer_kinds,
            **about,
        },
    )


def _effects(
    run: ReadableRun, paths: Sequence[SkipPath], options: SkipPathOptions
) -> tuple[dict[str, tuple[str, Any]], dict[str, Any]]:
    """Return the coordinates with the effect of each path, and the attributes that say what was measured.

    No coordinates where the run has no sweep, one of other targets or a damaged one.
    """
    found, about = measured_beside(run, step=options.step, cut=options.cut)
    if found is None:
        return {}, about
    place = (
        np.array([path.target - 1 for path in paths], int),
        np.array([path.source for path in paths], int),
    )
    effects = {"effect": found.values[place], "effect_interval": found["interval"].values[place]}
    return {name: ("path", values) for name, values in effects.items()}, about


def source_layer(layout: DepthLayout, column: int) -> int:
    """Return the sublayer after which a source is complete: 0 for the embedding, a block's last sublayer."""
    kind, _, number = layout.source_names[column].partition(" ")
    if kind == "block" and number.isdigit() and int(number) in layout.residual_block:
        return max(
            layer for layer, block in enumerate(layout.residual_block, start=1) if block == int(number)
        )
    return int(number) if kind == "sublayer" and number.isdigit() else min(column, layout.layers)
