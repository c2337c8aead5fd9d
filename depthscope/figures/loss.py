"""Loss, the numbers: validation loss over steps where a run evaluates, else its training loss."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.figures.columns import column_means
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import evaluation_names
from depthscope.figures.value_axis import ValueAxis

TRAINING = "loss"
_PREFERRED = "validation"


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """What a loss chart shows."""

    name: str | None = None
    """The loss's name in the run; None: the validation loss if any run has one, else the training loss."""
    columns: int = 750
    """Most points of one run."""


def loss_shown(runs: Sequence[ReadableRun]) -> str:
    """Return the name of the loss to show: ``validation``, another evaluation, or the training ``loss``."""
    held: set[str] = set()
    for run in runs:
        with suppress(OSError, ValueError):
            held.update(evaluation_names(run))
    if _PREFERRED in held:
        return _PREFERRED
    return min(held, default=TRAINING)


def loss_data(runs: Sequence[ReadableRun], options: LossOptions) -> Labelled:
    """Return per run an array (point) in nats with the coordinate `step` (point), means where steps are binned."""
    name = options.name or loss_shown(runs)

    def part(run: ReadableRun) -> xr.DataArray:
        if name not in run.quantities:
            raise Absent(
                "no validation loss yet" if name != TRAINING else "no loss was given to the recorder"
            )
        array = column_means(run.read(name, columns=options.columns))
        values = np.asarray(array.values, dtype=np.float64)
        kept = ~np.isnan(values)
        if not kept.any():
            raise Absent(
                "no validation loss yet" if name != TRAINING else "no loss was given to the recorder"
            )
        steps = np.asarray(array["step_end"].values, dtype=np.int64)
        return xr.DataArray(
            values[kept],
            dims="point",
            coords={"step": ("point", steps[kept])},
            name=name,
            attrs={"units": "nats"},
        )

    arrays, absent, names = per_run(runs, part)
    title = "Training loss" if name == TRAINING else f"{name[:1].upper()}{name[1:]} loss"
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={"quantity": name, "title": title, "note": "nats per token", "signed": True},
    )


def loss_axis(data: Labelled) -> ValueAxis:
    """Return the axis that leaves out each run's first tenth of records, where the loss falls steeply.

    What lies beyond it is marked at its edge.
    """
    parts = [array.values[array.sizes["point"] // 10 :] for array in data.arrays.values()]
    values = np.concatenate(parts) if parts else np.empty(0)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = 0.04 * ((high - low) or 1.0)
    return ValueAxis(low=low - room, high=high + room, log=False)
