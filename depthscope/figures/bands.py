"""Bands: residual blocks as stripes behind a depth axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.look import Look


def banded_run(arrays: Mapping[str, xr.DataArray], focus: str | None) -> xr.DataArray | None:
    """Return the run whose residual blocks are drawn: the focused one if it has blocks, else the first that has."""
    ordered = ([arrays[focus]] if focus is not None and focus in arrays else []) + list(arrays.values())
    return next((array for array in ordered if len(set(array["residual_block"].values.tolist())) > 1), None)


def blocks_along(banded: xr.DataArray, normalised: bool) -> list[tuple[int, float, float]]:
    """Return (block, left, right) along the depth axis, in sublayers or, normalised, from 0 to 1."""
    blocks = banded["residual_block"].values
    size = len(blocks) if normalised else 1
    shift = 0.0 if normalised else 0.5
    return [
        (
            int(block),
            float(np.flatnonzero(blocks == block)[0] / size + shift),
            float((np.flatnonzero(blocks == block)[-1] + 1) / size + shift),
        )
        for block in dict.fromkeys(blocks.tolist())
    ]


def band_shapes(banded: xr.DataArray | None, normalised: bool, look: Look) -> list[dict[str, Any]]:
    blocks = [] if banded is None else blocks_along(banded, normalised)
    return [
        {
            "type": "rect",
            "layer": "below",
            "xref": "x",
            "yref": "paper",
            "x0": left,
            "x1": right,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": look.theme["chart-band"],
        }
        for _, left, right in blocks[1::2]
    ]


def band_names(banded: xr.DataArray | None, normalised: bool) -> list[dict[str, Any]]:
    if banded is None:
        return []
    return [
        {"block": block, "x0": left, "x1": right} for block, left, right in blocks_along(banded, normalised)
    ]
