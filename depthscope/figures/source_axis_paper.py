"""The axis of sources below a paper map: the embedding, then as many blocks or sublayers as have room."""

from __future__ import annotations

import xarray as xr
from matplotlib.axes import Axes

from depthscope.figures.ticks import layer_ticks

_NUMBER = 0.11
"""Inches that a number needs beside others."""
_EMBEDDING = 0.24
"""Inches from the middle of `emb` to that of the next number."""


def source_ticks(axes: Axes, array: xr.DataArray, room: float) -> None:
    """Label `emb` and the blocks or sublayers behind it that neither touch it nor one another in `room` inches."""
    sources = array.sizes["source"]
    each = room / sources
    numbers = list(range(1, sources))
    if each < _NUMBER:
        numbers = layer_ticks(sources - 1, [0] * (sources - 1))
        while len(numbers) > 2 and (numbers[-1] - numbers[-2]) * each < 2 * _NUMBER:
            numbers = numbers[::-2][::-1]
    numbers = [number for number in numbers if number * each > _EMBEDDING]
    axes.set_xticks([0, *numbers], ["emb", *(str(number) for number in numbers)])
    axes.set_xlabel(f"source {array.attrs['source_axis']}", labelpad=1)
