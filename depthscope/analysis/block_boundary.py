"""Block boundaries: what happens where the sum of writes starts anew, against what must happen there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from depthscope.analysis.depth import ends, positions, starts
from depthscope.analysis.finding import Finding, Value
from depthscope.analysis.fit import FloatArray, IntArray, defined, geometric_mean, log_positive, slope
from depthscope.analysis.records import Records
from depthscope.analysis.rule import Rule, restarts
from depthscope.analysis.wording import percent, significant, times
from depthscope.quantities import DepthLayout

THE_LINE = "The sum restarts by design; what training decides is the rest."


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """The boundary between residual blocks n and n + 1; sublayers as positions from 0."""

    block: int
    """n, counted from 1."""
    first_before: int
    """First sublayer of block n."""
    before: int
    """Last sublayer of block n: its state is b_n."""
    after: int
    """First sublayer of block n + 1."""
    settled: int
    """Last sublayer of the first transformer block of residual block n + 1."""


def boundaries(residual_block: Sequence[int], transformer_block: Sequence[int]) -> list[Boundary]:
    """Return the boundaries between consecutive residual blocks, in order of depth.

    A transformer block that straddles a boundary counts on each side with the sublayers it has there.
    """
    first, last = starts(residual_block), ends(residual_block)
    tails = ends(transformer_block)
    return [
        Boundary(
            block=number + 1,
            first_before=int(first[number]),
            before=int(last[number]),
            after=int(first[number + 1]),
            settled=int(min(tails[tails >= first[number + 1]].min(), last[number + 1])),
        )
        for number in range(len(last) - 1)
    ]


def reset_ratios(state_rms: FloatArray, edges: Sequence[Boundary]) -> FloatArray:
    """(a) State after the last transformer block of n over the state after the first one of n + 1."""
    return np.array([state_rms[edge.before] / state_rms[edge.settled] for edge in edges])


def construction_ratios(write_rms: FloatArray, edges: Sequence[Boundary]) -> FloatArray:
    """(b) The reset ratio that the same writes give when uncorrelated: roots of the sums of squares."""
    squares = write_rms**2
    return np.array(
        [
            np.sqrt(
                squares[edge.first_before : edge.before + 1].sum()
                / squares[edge.after : edge.settled + 1].sum()
            )
            for edge in edges
        ]
    )


def read_changes(read_rms: FloatArray, edges: Sequence[Boundary]) -> FloatArray:
    """(d) rms of the first read of block n + 1 over that of the last read of block n."""
    return np.array([read_rms[edge.after] / read_rms[edge.before] for edge in edges])


def periodicity(state_rms: FloatArray, residual_block: Sequence[int]) -> float:
    """(e) Adjusted R² of detrended log state_rms [L] on the position in the block.

    The trend is the line through the means of the longest blocks, so that a pattern repeated in every block
    gives 1 whatever the trend; a shorter last block takes part in the fit only. NaN with fewer than two blocks
    of full length, fewer than two positions, or nothing left after the trend.
    """
    values = log_positive(state_rms)
    if not np.all(np.isfinite(values)):
        return float("nan")
    first, last = starts(residual_block), ends(residual_block)
    lengths = last - first + 1
    whole = lengths == lengths.max()
    if np.count_nonzero(whole) < 2 or lengths.max() < 2:
        return float("nan")
    means = np.array([values[a : b + 1].mean() for a, b in zip(first[whole], last[whole], strict=True)])
    centres = (first + last)[whole] / 2
    residual = values - slope(centres, means) * np.arange(values.size)
    return adjusted_r2(residual, positions(residual_block))


def adjusted_r2(values: FloatArray, groups: IntArray) -> float:
    """Return 1 - (1 - R²)(N - 1)/(N - G) of `values` [N] on their group [N], G groups; NaN if not defined."""
    names = np.unique(groups)
    total = float(((values - values.mean()) ** 2).sum())
    if values.size <= names.size or total <= values.size * np.finfo(np.float32).eps:
        return float("nan")
    within = sum(
        float(((values[groups == name] - values[groups == name].mean()) ** 2).sum()) for name in names
    )
    return 1 - (within / total) * (values.size - 1) / (values.size - names.size)


def _numbers(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _find(records: Records) -> list[Finding]:
    state, write = records.newest("state_rms"), records.newest("write_rms")
    if state is None or write is None:
        return []
    layout = records.layout
    edges = boundaries(layout.residual_block, layout.transformer_block)
    reset = reset_ratios(state.newest, edges)
    built = construction_ratios(write.newest, edges)
    against = geometric_mean(reset / built)
    if not np.isfinite(against):
        return []
    values: dict[str, Value] = {
        "reset_ratio": geometric_mean(reset),
        "construction_ratio": geometric_mean(built),
        "reset_over_construction": against,
        "reset_ratios": _numbers(reset),
        "construction_ratios": _numbers(built),
        "periodicity": defined(periodicity(state.newest, layout.residual_block)),
        "read_change": None,
    }
    text = (
        f"state rms before a block boundary is {times(geometric_mean(reset))} that after it, "
        f"{times(against)} what uncorrelated writes give"
    )
    read = records.newest("read_rms")
    if read is not None and np.isfinite(change := geometric_mean(read_changes(read.newest, edges))):
        values |= {"read_change": change, "read_changes": _numbers(read_changes(read.newest, edges))}
        text += f"; reads change {times(change)}"
    found = values["periodicity"]
    explained = (
        f" The position in the block explains {percent(found)} of the variation of log state rms (adjusted R²)."
        if isinstance(found, float)
        else ""
    )
    return [
        Finding(
            kind=RULE.kind,
            run_name=records.name,
            text=f"{text}.",
            values=values,
            page="boundaries",
            quantity="state_rms",
            step=state.newest_step,
            detail=(
                f"{THE_LINE} Geometric means over {len(edges)} boundaries: reset ratio "
                f"{significant(geometric_mean(reset))}, construction ratio {significant(geometric_mean(built))}."
                f"{explained}"
            ),
        )
    ]


def _excludes(layout: DepthLayout) -> str:
    return "" if restarts(layout) else "no sum of writes restarts in this design"


RULE = Rule(
    kind="block_boundary",
    question="What changes at block boundaries beyond the restart itself?",
    find=_find,
    needs=("state_rms", "write_rms"),
    excludes=_excludes,
)
