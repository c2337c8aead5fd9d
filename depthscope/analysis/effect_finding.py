"""Whether the paths that are weighted most are those whose cut costs most: measured, where a run has a sweep."""

from __future__ import annotations

import numpy as np
import xarray as xr

from depthscope.analysis.finding import Finding
from depthscope.analysis.path_effect import effect_map, rank_correlation, steps_apart
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule
from depthscope.analysis.skip_path import LEAST_DISTANCE, LEAST_SOURCES, no_shares
from depthscope.analysis.sweep_choice import chosen_sweep
from depthscope.store import RunError, Sweep

MOST = 10
"""How many of the widest and of the costliest paths are compared."""
FEWEST_PATHS = 12
"""At least four times as many paths are needed as are compared: by chance a quarter of them would be shared."""


def _find(records: Records) -> list[Finding]:
    sweep = chosen_sweep(records.sweeps())
    if sweep is None:
        return []
    try:
        data = effect_map(records.run, sweep)
    except RunError:  # the page that shows the sweep says what is damaged; it takes no other finding with it
        return []
    far = (data["distance"].values >= LEAST_DISTANCE) & (data["n_sources"].values[:, None] >= LEAST_SOURCES)
    far &= np.isfinite(data["weight"].values) & np.isfinite(data["effect"].values)
    if far.sum() < FEWEST_PATHS:
        return []
    return [_said(records, sweep, data, far)]


def _said(
    records: Records, sweep: Sweep, data: xr.Dataset, far: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
) -> Finding:
    weight, effect, half = (data[name].values[far] for name in ("weight", "effect", "effect_interval"))
    paths = int(weight.size)
    count = min(MOST, paths // 4)
    widest, costliest = np.argsort(-weight)[:count], np.argsort(-effect)[:count]
    shared = len(set(widest.tolist()) & set(costliest.tolist()))
    free = int((np.abs(effect[widest]) <= half[widest]).sum())
    ranks = rank_correlation(weight, effect)
    only = "only " if 2 * shared < count else ""
    where = "" if sweep.step is None else f" at step {sweep.step}"
    apart = steps_apart(sweep.step, data.attrs["record_step"])
    rank = f"; rank correlation of weight and effect {ranks:+.2f}" if np.isfinite(ranks) else ""
    return Finding(
        kind=RULE.kind,
        run_name=records.name,
        text=(
            f"{only}{shared} of the {count} widest skip paths are among the {count} costliest to cut{rank} over {paths} "
            f"paths of reads with {LEAST_SOURCES} sources or more."
        ),
        values={
            "compared": count,
            "shared": shared,
            "free": free,
            "paths": paths,
            "rank_correlation": ranks if np.isfinite(ranks) else None,
            "mode": sweep.mode,
        },
        page="paths",
        quantity="depth_attention",
        step=int(data.attrs["record_step"]),
        detail=(
            f"The {count} paths of largest weight beside the {count} whose cut costs most, of {paths} measured ones at "
            f"distance {LEAST_DISTANCE} or more in reads of {LEAST_SOURCES} sources or more; only: less than half of these. "
            f"Of the widest, {free} show no cost: 0 lies within the 95 % interval of their effect, which with few "
            f"batches may be want of data. Cut by {sweep.mode}{where}, in the sweep {sweep.name}"
            f"{f'; {apart}' if apart else ''}."
        ),
    )


RULE = Rule(
    kind="path_effect",
    question="Are the paths with the largest weights those whose cut costs most?",
    find=_find,
    needs=("depth_attention",),
    excludes=no_shares,
)
