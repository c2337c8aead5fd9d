"""Solving one block by running it alone, in the mode and with the parameters that tell most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from depthscope.anatomy.ports import Path, floating, floating_arguments
from depthscope.anatomy.sample import Sampler, close, tolerance_of
from depthscope.anatomy.solve import Write, diagnose, find_writes, nearest_gap
from depthscope.anatomy.trace import Trace, trace
from depthscope.anatomy.untouched import flags_set

_TRIES = 8
"""Runs in training mode: one may leave a sublayer or the block out by chance (stochastic depth)."""


Marked = Callable[[str], bool]
Run = Callable[[int, Marked], tuple[Trace, float]]


class Unsolved(Exception):
    """Carries the reason why a block has no record, and how far the nearest sum is from what was added.

    That is None where the sum holds and the trouble is another one.
    """

    def __init__(self, reason: str, error: float | None, tolerance: float) -> None:
        super().__init__(reason)
        self.error, self.tolerance = error, tolerance


@dataclass(frozen=True, eq=False)
class Solved:
    """The writes of a block in a run of it."""

    trace: Trace
    writes: list[Write]
    tolerance: float


@dataclass(frozen=True, eq=False)
class Streams:
    """Where the stream may go into a block and come out of it."""

    entry: Path
    leave: Path
    like: Tensor


def streams(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> Iterator[Streams]:
    """Yield each pair of an argument and an output that are shaped alike, the likeliest first."""
    arguments = list(floating_arguments(args, kwargs))
    for leave, tensor in floating(output):
        if tensor.ndim >= 2:
            fits = Sampler(tensor).fits
            yield from (Streams(entry, leave, tensor) for entry, argument in arguments if fits(argument))


def solve_block(
    block: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    where: Streams,
    *,
    flags: Mapping[nn.Module, bool],
    told: frozenset[str],
) -> Solved:
    """Return the writes of a block as they are while it trains.

    `flags` are the block's training flags; where none is set, training mode is taken. `told` names the
    modules whose outputs are said to be the writes; they are taken if they sum up, else all are searched.

    Raises:
        Unsolved: with the reason.
    """

    def run(seed: int, marked: Marked) -> tuple[Trace, float]:
        sampler = Sampler(where.like)
        shown = trace(
            block,
            args,
            kwargs,
            entry=where.entry,
            leave=where.leave,
            sampler=sampler,
            marked=marked,
            seed=seed,
        )
        return shown, tolerance_of(sampler.dtypes)

    training = dict(flags) if any(flags.values()) else dict.fromkeys(flags, True)
    if told:
        try:
            return _in_both_modes(run, training, told)
        except Unsolved:
            pass  # the search tells better what the writes are
    return _in_both_modes(run, training, frozenset())


def _in_both_modes(run: Run, training: dict[nn.Module, bool], told: frozenset[str]) -> Solved:
    """Return the writes that hold in training, and that are the same modules in evaluation."""
    evaluated = _attempt(partial(run, 0), told)
    with flags_set(training):
        for seed in range(_TRIES):
            trained = _attempt(partial(run, seed), told)
            if trained.solved is None and not trained.empty:
                break
            if trained.solved is not None and evaluated.modules in ([], trained.modules):
                return trained.solved
        shown, tolerance = run(0, lambda path: True)
    twice = {write.call.module for write in find_writes(shown, tolerance) or ()} & shown.repeated()
    if twice:
        reason = (
            f"{', '.join(sorted(twice))} gives several writes in one forward, and a hook can't tell its "
            "calls apart; give each sublayer its own"
        )
    elif evaluated.solved is not None:
        reason = (
            f"output - input is {' + '.join(evaluated.modules)} in evaluation but not in training: a dropout "
            "or a skipped branch that is no module lies between; use nn.Dropout modules, or a rate of 0"
        )
    else:
        reason = diagnose(evaluated.trace, evaluated.tolerance)
    raise Unsolved(reason, None if twice else nearest_gap(shown), tolerance)


@dataclass(frozen=True, eq=False)
class _Attempt:
    trace: Trace
    tolerance: float
    writes: list[Write] | None

    @property
    def solved(self) -> Solved | None:
        return None if self.writes is None else Solved(self.trace, self.writes, self.tolerance)

    @property
    def modules(self) -> list[str]:
        return [write.call.module for write in self.writes or ()]

    @property
    def empty(self) -> bool:
        """Nothing was added: the whole block was left out."""
        return close(self.trace.leaving, self.trace.entering, self.tolerance)


def _attempt(run: Callable[[Marked], tuple[Trace, float]], told: frozenset[str]) -> _Attempt:
    if told:
        shown, tolerance = run(lambda path: path in told)
        others = frozenset(call.module for call in shown.calls) - told
        writes = find_writes(shown, tolerance, others)
        exactly = writes is not None and {write.call.module for write in writes} == told
        return _Attempt(shown, tolerance, writes if exactly else None)
    shown, tolerance = run(lambda path: True)
    repeated = shown.repeated()
    if repeated:
        # Without marks on them a dropout of rate 0 gives what it took, and the write is seen before it.
        shown, tolerance = run(lambda path: path not in repeated)
    return _Attempt(shown, tolerance, find_writes(shown, tolerance, repeated))
