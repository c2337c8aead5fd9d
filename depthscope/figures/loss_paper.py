"""Loss over steps, drawn for paper into one panel."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from depthscope.figures.beyond import Stretch, beyond_words
from depthscope.figures.labelled import Labelled
from depthscope.figures.loss import loss_axis
from depthscope.figures.marks_paper import draw_beyond, draw_value_axis
from depthscope.figures.paper import LINE, Sheet, bare
from depthscope.figures.ticks import round_ticks, short_number


def draw_loss(axes: Axes, data: Labelled, sheet: Sheet) -> str:
    """Draw `loss_data`: one line a run. Return how many records lie beyond the axis, in words."""
    bare(axes, sheet, grid=True)
    values = loss_axis(data)
    last = 1.0
    found: list[Stretch] = []
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
        found += draw_beyond(axes, steps, array.values, values, sheet.colour(run))
    step_axis(axes, 0, last, 4)
    draw_value_axis(axes, values)
    axes.set_ylabel(str(data.attributes["note"]))
    return beyond_words(found, values)


def step_axis(axes: Axes, first: float, last: float, wanted: int) -> None:
    """Label an axis over steps with round numbers."""
    axes.set_xlim(first, last)
    ticks = round_ticks(max(first, 0.0), last, wanted)
    axes.set_xticks(ticks, [short_number(tick) for tick in ticks])
    axes.set_xlabel("step", labelpad=1)
