"""The table of `depthscope summary`: the newest numbers over depth, one line a sublayer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray

    from depthscope.quantities import DepthLayout
    from depthscope.store import Run

ROWS = 64
"""Deeper runs show evenly spaced sublayers, the first and the last included."""


def last_rows(entry: Run, names: Sequence[str], until: int | None) -> dict[str, xr.DataArray]:
    """Return the newest row of each quantity, up to step `until`; without those that have none."""
    import numpy as np

    found = {}
    for name in names:
        array = entry[name]
        rows = array if until is None else array.isel(step=np.flatnonzero(array["step"].values <= until))
        if rows.sizes["step"]:
            found[name] = rows.isel(step=-1)
    return found


def print_depth(arrays: Mapping[str, xr.DataArray], layout: DepthLayout, until: int | None) -> None:
    """Print rows side by side."""
    if not arrays:
        print("\nno record yet" if until is None else f"\nno record up to step {until}")
        return
    steps = sorted({int(array["step"]) for array in arrays.values()})
    print(f"\nover depth at step {', '.join(map(str, steps))}")
    shown = shown_layers(layout.layers)
    columns = [Column(title="layer", right=True), Column(title="sublayer"), Column(title="block", right=True)]
    columns += [Column(title=name, right=True) for name in arrays]
    lines = [
        [
            str(layer + 1),
            layout.layer_kinds[layer],
            str(layout.residual_block[layer] or "-"),
            *(number_text(float(array.values[layer])) for array in arrays.values()),
        ]
        for layer in shown
    ]
    print_table(columns, lines)
    if shown.size < layout.layers:
        print(f"{shown.size} of {layout.layers} sublayers, evenly spaced")


def shown_layers(layers: int) -> NDArray[np.int64]:
    """Return the layers (from 0) that the table shows: all, or `ROWS` evenly spaced ones."""
    import numpy as np

    return np.linspace(0, layers - 1, min(layers, ROWS)).round().astype(np.int64)


def number_text(value: float) -> str:
    """Return three significant digits; `-` for what the design does not have."""
    return "-" if math.isnan(value) else f"{value:.3g}"
