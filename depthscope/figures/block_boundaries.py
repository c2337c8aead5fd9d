"""Block boundaries, the numbers: the state folded by position in block, and what changes where a sum restarts.

A run without residual blocks is the control: its writes are summed over the blocks of a run that has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr

from depthscope.analysis import THE_LINE, one_stream
from depthscope.figures.block_boundaries_series import read_changes_over_steps, reset_over_construction, sums
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import IntArray, recorded_steps, row_for
from depthscope.figures.shown import FloatArray, heading, is_signed, require, short_label, shown_values
from depthscope.figures.within import require_within
from depthscope.quantities import quantity as look_up

Show = Literal["folded", "sums", "reset", "read"]
SHOWS: tuple[Show, ...] = ("folded", "sums", "reset", "read")
_HEADINGS = {
    "sums": ("State at block ends", "rms of bₙ"),
    "reset": ("Reset over construction ratio", "1: uncorrelated writes"),
    "read": ("Read change across boundaries", "first read over the last before"),
}


@dataclass(frozen=True, kw_only=True)
class BoundaryOptions:
    """What a figure of block boundaries shows."""

    show: Show = "folded"
    """`folded`: a quantity by position in block at one step. Over all steps: `sums`, the state at block ends;
    `reset`, the reset ratio over its construction ratio; `read`, the read after a boundary over that before."""
    quantity: str = "state_rms"
    """Of `folded`: any quantity over sublayers."""
    step: int | None = None
    """Of `folded`: the newest row at or before this step; None: the newest row."""
    columns: int = 400
    """Of the others: most columns of one run."""

    def __post_init__(self) -> None:
        require_within("columns", self.columns, 1)


def block_boundaries_data(runs: Sequence[ReadableRun], options: BoundaryOptions) -> Labelled:
    """Return per run an array in shown units.

    `folded`: (block, position), NaN past the end of a shorter block; coordinates `layer` (block, position), 0
    there, and the scalar `step`. `sums`: (block, column); `reset` and `read`: (boundary, column), boundary n
    between blocks n and n + 1; coordinates `step_start` and `step_end` (column), with means where steps are
    binned. `reset` carries its two parts as the coordinates `reset_ratio` and `construction_ratio`.

    The attribute `control` marks runs without blocks: what they show are the sums of their writes over virtual
    blocks if those were uncorrelated, √Σ write rms²; in `sums` the coordinates `at_least` and `at_most` bound
    the rms of the true sums.
    """
    pattern = {run.layout.layers: run.layout.residual_block for run in reversed(runs) if has_blocks(run)}

    def part(run: ReadableRun) -> xr.DataArray:
        blocks = run.layout.residual_block if has_blocks(run) else pattern.get(run.layout.layers)
        if blocks is None:
            raise Absent("no residual blocks, and no run with blocks has its depth")
        control = not has_blocks(run)
        if control:
            _check_control(run, options)
        match options.show:
            case "folded":
                array = _folded(run, options, blocks, control=control)
            case "sums":
                array = sums(run, options.columns, blocks, control=control)
            case "reset":
                array = reset_over_construction(run, options.columns)
            case "read":
                array = read_changes_over_steps(run, options.columns)
        array.attrs |= {
            "control": control,
            "design": run.layout.design,
            "layer_kinds": list(run.layout.layer_kinds),
        }
        return array

    arrays, absent, names = per_run(runs, part)
    folded = f"{short_label(options.quantity, 'absolute')} by position in block"
    title, note = _HEADINGS.get(options.show) or (folded, heading(options.quantity, "absolute")[1])
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": {"folded": options.quantity, "read": "read_rms"}.get(options.show, "state_rms"),
            "show": options.show,
            "mode": "absolute",
            "title": title,
            "note": note,
            "line": THE_LINE,
            "signed": options.show == "folded" and is_signed(options.quantity),
        },
    )


def has_blocks(run: ReadableRun) -> bool:
    """Return whether the run's design has residual blocks of its own."""
    blocks = set(run.layout.residual_block)
    return 0 not in blocks and len(blocks) > 1


def _check_control(run: ReadableRun, options: BoundaryOptions) -> None:
    if options.show in ("reset", "read"):
        raise Absent("no residual blocks")
    if not one_stream(run.layout):
        raise Absent("neither residual blocks nor one accumulated stream to be their control")
    if options.show == "folded" and options.quantity not in ("state_rms", "write_rms"):
        raise Absent("no residual blocks; as their control it shows the sums of its writes only")


def _folded(
    run: ReadableRun, options: BoundaryOptions, blocks: Sequence[int], *, control: bool
) -> xr.DataArray:
    summed = control and options.quantity == "state_rms"
    name = "write_rms" if summed else options.quantity
    require(run, name)
    steps = recorded_steps(run, name)
    step = row_for(steps, options.step)
    if step is None:
        raise Absent(
            "no step is recorded yet" if not steps.size else f"no record at or before step {options.step}"
        )
    row = shown_values(run.read(name, start=step, stop=step + 1).isel(step=0).values, name)
    layer = fold(np.arange(1, len(blocks) + 1), blocks, empty=0).astype(np.int64)
    values = fold(row, blocks)
    if summed:
        values = np.sqrt(np.cumsum(values**2, axis=1))
    return xr.DataArray(
        values,
        dims=("block", "position"),
        coords={
            "block": np.arange(1, values.shape[0] + 1),
            "position": np.arange(1, values.shape[1] + 1),
            "layer": (("block", "position"), layer),
            "step": step,
        },
        name=options.quantity,
        attrs=look_up(options.quantity).attributes(),
    )


def fold(values: FloatArray | IntArray, blocks: Sequence[int], empty: float = np.nan) -> FloatArray:
    """Return `values` [L] as [block, position in block], `empty` past the end of a shorter block."""
    numbers = np.asarray(blocks)
    parts = [np.asarray(values, dtype=np.float64)[numbers == block] for block in dict.fromkeys(blocks)]
    out = np.full((len(parts), max(part.size for part in parts)), empty)
    for row, part in enumerate(parts):
        out[row, : part.size] = part
    return out
