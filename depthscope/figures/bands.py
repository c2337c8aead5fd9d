"""Bands: residual blocks as stripes behind a depth axis, and whose blocks they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look
from depthscope.figures.names import shortened

_NAMED = 2
"""Runs whose bands are told by name; the others are counted."""


def has_several_blocks(array: xr.DataArray) -> bool:
    """Return whether a run's depth is cut into residual blocks."""
    return len(set(array["residual_block"].values.tolist())) > 1


def banded_runs(arrays: Mapping[str, xr.DataArray], focus: str | None) -> list[str]:
    """Return the ids of the runs whose residual blocks the bands of a shared depth axis show.

    The focused run's where it has blocks and all depths are the same; without, or where depths differ, only
    blocks on which all runs that have any agree. Runs whose blocks end elsewhere are never among them.
    """
    ends = {run: _ends(array) for run, array in arrays.items() if has_several_blocks(array)}
    agree = len(set(ends.values())) == 1
    one_depth = len({array.sizes["layer"] for array in arrays.values()}) == 1
    if not ends or not (agree or (one_depth and focus in ends)):
        return []
    first = focus if focus in ends else next(iter(ends))
    return [first, *(run for run in ends if run != first and ends[run] == ends[first])]


def _ends(array: xr.DataArray) -> tuple[Fraction, ...]:
    """Return where blocks end, as shares of the depth: exact, so that depths can be compared."""
    blocks = array["residual_block"].values
    return tuple(Fraction(int(place) + 1, len(blocks)) for place in np.flatnonzero(np.diff(blocks)))


def banded_run(data: Labelled) -> xr.DataArray | None:
    """Return the run whose blocks are drawn behind `data`; None where there are no bands."""
    return next((data.arrays[run] for run in data.attributes["banded"] if run in data.arrays), None)


def bands_note(data: Labelled) -> str:
    """Say whose blocks the bands are: ``bands: blocks of hires``; or why there are none. Empty without blocks."""
    banded = [run for run in data.attributes["banded"] if run in data.arrays]
    if not banded:
        differ = any(has_several_blocks(array) for array in data.arrays.values())
        return "no bands: the runs' blocks differ" if differ else ""
    return f"bands: blocks of {runs_words([data.names.get(run, run) for run in banded])}"


def runs_words(names: Sequence[str]) -> str:
    """Return run names as a list in words: ``a``, ``a and b``, ``a, b and 3 more``."""
    told = [shortened(name, 20) for name in names[:_NAMED]]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    parts = told + more
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


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
