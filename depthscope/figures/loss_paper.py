"""Loss over steps, drawn for paper into one panel."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from depthscope.figures.labelled import Labelled
from depthscope.figures.loss import opening_range
from depthscope.figures.paper import LINE, Sheet, bare
from depthscope.figures.ticks import round_ticks, short_number


def draw_loss(axes: Axes, data: Labelled, sheet: Sheet) -> None:
    """Draw `loss_data`: one line a run, opened on what comes after the first steep tenth of the records."""
    bare(axes, sheet, grid=True)
    last = 1.0
    for run, array in data.arrays.items():
        steps = np.asarray(array["step"].values, dtype=np.float64)
        last = max(last, float(steps[-1]))
        axes.plot(
            steps,
            array.values,
            color=sheet.colour(run),
            linestyle=sheet.dash(run),
            linewidth=LINE,
            gid=f"line {run}",
        )
    low, high = opening_range(list(data.arrays.values()))
    step_axis(axes, 0, last, 4)
    axes.set_ylim(low, high)
    ticks = round_ticks(low, high, 4)
    axes.set_yticks(ticks, [short_number(tick) for tick in ticks])
    axes.set_ylabel("nats per token")


def step_axis(axes: Axes, first: float, last: float, wanted: int) -> None:
    """Label an axis over steps with round numbers."""
    axes.set_xlim(first, last)
    ticks = round_ticks(max(first, 0.0), last, wanted)
    axes.set_xticks(ticks, [short_number(tick) for tick in ticks])
    axes.set_xlabel("step", labelpad=1)
