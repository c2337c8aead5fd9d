"""Block boundaries over steps, the numbers: states at block ends, reset over construction ratio, read change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from depthscope.analysis import (
    boundaries,
    construction_ratios,
    read_changes,
    reset_ratios,
    restarts,
    virtual_blocks,
)
from depthscope.figures.columns import column_means
from depthscope.figures.labelled import Absent
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import IntArray
from depthscope.figures.shown import FloatArray, require
from depthscope.quantities import DepthLayout
from depthscope.quantities import quantity as look_up

_OURS = "depthscope definitions, block boundary"


def sums(run: ReadableRun, columns: int, blocks: Sequence[int], *, control: bool) -> xr.DataArray:
    state, start, end = _over_steps(run, "state_rms", columns)
    numbers = np.asarray(blocks)
    last = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]), numbers.size - 1)
    values = state[last]
    bounds: dict[str, FloatArray] = {}
    if control:
        write, _, _ = _over_steps(run, "write_rms", columns)
        embedding, _, _ = _over_steps(run, "embedding_rms", columns)
        found = [
            virtual_blocks(write[:, column], state[:, column], float(embedding[column]), blocks)
            for column in range(state.shape[1])
        ]
        values = np.array([one.uncorrelated for one in found]).T
        bounds = {
            "at_least": np.array([one.at_least for one in found]).T,
            "at_most": np.array([one.at_most for one in found]).T,
        }
    return _by_column(values, "block", start, end, "state_rms", bounds)


def reset_over_construction(run: ReadableRun, columns: int) -> xr.DataArray:
    layout: DepthLayout = run.layout
    if not restarts(layout):
        raise Absent("its blocks start from a read, not from zero")
    state, start, end = _over_steps(run, "state_rms", columns)
    write, _, _ = _over_steps(run, "write_rms", columns)
    edges = boundaries(layout.residual_block, layout.transformer_block)
    with np.errstate(divide="ignore", invalid="ignore"):
        reset = np.array([reset_ratios(column, edges) for column in state.T]).T
        built = np.array([construction_ratios(column, edges) for column in write.T]).T
        parts = {"reset_ratio": reset, "construction_ratio": built}
        array = _by_column(reset / built, "boundary", start, end, "state_rms", parts)
    return _ratio(
        array,
        "reset_over_construction",
        "reset ratio over construction ratio",
        "rms(s before a boundary) / rms(s after the first transformer block behind it), over "
        "sqrt(sum of the block's squared write rms / sum of those behind the boundary)",
    )


def read_changes_over_steps(run: ReadableRun, columns: int) -> xr.DataArray:
    read, start, end = _over_steps(run, "read_rms", columns)
    edges = boundaries(run.layout.residual_block, run.layout.transformer_block)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.array([read_changes(column, edges) for column in read.T]).T
    array = _by_column(change, "boundary", start, end, "read_rms", {})
    return _ratio(
        array,
        "read_change",
        "first read of a block over the last read before it",
        "rms(first read of block n + 1) / rms(last read of block n)",
    )


def _ratio(array: xr.DataArray, name: str, long_name: str, formula: str) -> xr.DataArray:
    """Name a ratio of recorded values, which has a definition and a unit of its own."""
    array = array.rename(name)
    array.attrs = {
        "long_name": long_name,
        "formula": formula,
        "units": "1",
        "reduction": array.attrs["reduction"],
        "source": _OURS,
    }
    return array


def _over_steps(run: ReadableRun, name: str, columns: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Return values (layer, column), or (column) of a scalar, and the first and last step of each column."""
    require(run, name)
    array = run.read(name, columns=columns)
    if array.sizes["step"] == 0:
        raise Absent("no step is recorded yet")
    mean = column_means(array).transpose(..., "step")
    start = np.asarray(array["step_start"].values, dtype=np.int64)
    end = np.asarray(array["step_end"].values, dtype=np.int64)
    return np.asarray(mean.values, dtype=np.float64), start, end


def _by_column(
    values: FloatArray,
    dim: str,
    start: IntArray,
    end: IntArray,
    quantity: str,
    parts: dict[str, FloatArray],
) -> xr.DataArray:
    return xr.DataArray(
        values,
        dims=(dim, "column"),
        coords={
            dim: np.arange(1, values.shape[0] + 1),
            "step_start": ("column", start),
            "step_end": ("column", end),
            **{name: ((dim, "column"), part) for name, part in parts.items()},
        },
        name=quantity,
        attrs=look_up(quantity).attributes(),
    )
