"""Control for block boundaries: a run without blocks, cut into the blocks of a run that has them.

The rms of the sum of a virtual block's writes is not recorded, and the recorded sizes only bound it; what both
runs do have is the root of the sum of squared write rms (the sum of uncorrelated writes) and the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.block_boundary import periodicity
from depthscope.analysis.depth import ends, starts
from depthscope.analysis.finding import Finding, as_values
from depthscope.analysis.fit import FloatArray
from depthscope.analysis.records import Records
from depthscope.analysis.rule import one_stream, restarts
from depthscope.analysis.wording import percent, span

KIND = "block_control"


@dataclass(frozen=True, kw_only=True)
class BlockControl:
    """A run without blocks over virtual blocks n = 1..N."""

    uncorrelated: tuple[float, ...]
    """sqrt of the sum of squared write rms: the rms of the block's sum if its writes were uncorrelated."""
    at_least: tuple[float, ...]
    """Exact lower bound of the rms of the sum: |rms(s_end) - rms(s_begin)|."""
    at_most: tuple[float, ...]
    """Exact upper bound: the lesser of the sum of write rms and rms(s_end) + rms(s_begin)."""
    periodicity: float
    """Adjusted R² of detrended log state rms on the position in the virtual block; NaN if not defined."""


def virtual_blocks(
    write_rms: FloatArray, state_rms: FloatArray, embedding_rms: float, residual_block: Sequence[int]
) -> BlockControl:
    """Sum the writes [L] of an additive stream over the blocks that `residual_block` [L] names.

    `state_rms` [L] is the stream after each write and `embedding_rms` before the first.
    """
    blocks = list(zip(starts(residual_block), ends(residual_block) + 1, strict=True))
    before = np.concatenate(([embedding_rms], state_rms))
    edges = [(before[first], state_rms[last - 1]) for first, last in blocks]
    sums = [float(write_rms[first:last].sum()) for first, last in blocks]
    return BlockControl(
        uncorrelated=tuple(float(np.sqrt((write_rms[first:last] ** 2).sum())) for first, last in blocks),
        at_least=tuple(float(abs(end - begin)) for begin, end in edges),
        at_most=tuple(
            float(min(total, begin + end)) for total, (begin, end) in zip(sums, edges, strict=True)
        ),
        periodicity=periodicity(state_rms, residual_block),
    )


def block_control(run: Records, control: Records) -> list[Finding]:
    """Return the finding that sets a run with restarting sums beside a run without blocks, or nothing.

    Both need the same number of sublayers; the control needs one accumulated stream.
    """
    layout = run.layout
    if not restarts(layout) or not one_stream(control.layout) or control.layout.layers != layout.layers:
        return []
    own, write, state = run.newest("state_rms"), control.newest("write_rms"), control.newest("state_rms")
    embedding = control.newest("embedding_rms")
    if own is None or write is None or state is None or embedding is None:
        return []
    found = virtual_blocks(write.newest, state.newest, float(embedding.newest), layout.residual_block)
    if not np.all(np.isfinite(found.at_least)):
        return []
    text = (
        f"control {control.name}, without blocks: the writes of the same {len(found.uncorrelated)} blocks add up to "
        f"{span(min(found.uncorrelated), max(found.uncorrelated))} if uncorrelated"
    )
    here = periodicity(own.newest, layout.residual_block)
    if np.isfinite(here) and np.isfinite(found.periodicity):
        text += (
            f"; position in block explains {percent(max(found.periodicity, 0))} of its state rms, "
            f"{percent(max(here, 0))} here"
        )
    return [
        Finding(
            kind=KIND,
            run_name=run.name,
            text=f"{text}.",
            values=as_values(found),
            page="boundaries",
            quantity="write_rms",
            step=write.newest_step,
            detail=(
                "The rms of the sums themselves is not recorded; the sizes of writes and states bound it: "
                + ", ".join(span(low, high) for low, high in zip(found.at_least, found.at_most, strict=True))
                + "."
            ),
            baseline_name=control.name,
        )
    ]
