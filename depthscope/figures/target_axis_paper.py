"""The axis of targets beside a paper map: sublayers and the final read, with marks for attention and MLP."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from depthscope.figures.paper import Sheet
from depthscope.figures.target_rows import target_labels

DOT = 2.0
_ROOM, _APART = 1.6, 0.14
"""Inches: the axis, and from label to label."""
MOST_DOTS = 40
"""Targets of a map above which the marks of attention and MLP are left out."""


def target_ticks(
    axes: Axes, array: xr.DataArray, sheet: Sheet, labelled: bool, *, beside: float = 0.04
) -> None:
    """Label targets by sublayer as on the screen, the final read as `output`, with marks for attention and MLP beside the map.

    `beside` is how far the marks lie from the map, as a share of its width.
    """
    kinds = np.asarray(array["target_kind"].values)
    places, texts = target_labels(array, apart=_APART * kinds.size / _ROOM)
    axes.set_yticks(places, texts if labelled else [])
    axes.tick_params(axis="y", length=0, pad=8)
    if labelled:
        axes.set_ylabel("target sublayer", labelpad=1)
    if kinds.size > MOST_DOTS:
        return
    grey = sheet["text-secondary"]
    for kind, face in (("attention", grey), ("mlp", sheet["surface"])):
        chosen = np.flatnonzero(kinds == kind)
        if chosen.size == 0:  # an unclipped line without points would pull the layout to the sheet's corner
            continue
        axes.plot(
            np.full(chosen.size, -beside),
            chosen,
            transform=axes.get_yaxis_transform(),
            clip_on=False,
            linestyle="none",
            marker="o",
            markersize=DOT,
            markeredgewidth=0.5,
            markeredgecolor=grey,
            markerfacecolor=face,
        )
