"""The residual-write solve: which outputs sum to what a block adds to the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from depthscope.anatomy.ports import Path
from depthscope.anatomy.sample import close
from depthscope.anatomy.trace import Call, Trace
from depthscope.anatomy.words import Side

_LARGEST_SET = 4
_MOST_CANDIDATES = 16
_WHOLE = 0.1
"""Weights further than this from a whole number are those of another sum, or shared by equal tensors."""


@dataclass(frozen=True, eq=False)
class Write:
    """A tensor that is added to the stream."""

    call: Call
    side: Side
    path: Path
    value: Tensor
    after: Tensor
    """Sample of the stream after this write."""
    error: float
    """||sum that was found - what was added|| / ||stream||, of the sum that this write is part of."""


@dataclass(frozen=True, eq=False)
class _Term:
    call: Call
    side: Side
    path: Path
    value: Tensor


def explain(difference: Tensor, values: Sequence[Tensor], allowed: float) -> tuple[int, ...] | None:
    """Return the smallest set of `values` that sums to `difference` within the norm `allowed`.

    None where there is none; among sets of one size the one of the last values wins. Values that are zero add
    nothing and are left out.
    """
    held = [index for index, value in enumerate(values) if float(value.norm()) > allowed]
    if not held or float(difference.norm()) <= allowed:
        return None
    matrix = torch.stack([values[index] for index in held])
    gram, projected = matrix @ matrix.T, matrix @ difference
    # Distinct outputs: the weights of the sum are found at once, and are 0 or 1 or the sum is another one.
    weights = _weights(gram, projected)
    chosen = [index for index, weight in zip(held, weights.tolist(), strict=True) if weight > 0.5]
    whole = bool(((weights - weights.round()).abs() < _WHOLE).all())
    if chosen and whole and _left_over(difference, values, chosen) <= allowed:
        return tuple(chosen)
    size = float(difference.norm())
    best = float((difference - weights @ matrix).norm())
    # No set can do better than the best weights; the search is for equal tensors, which have no single best.
    if best > 2 * max(allowed, 1e-6 * size) or len(held) > _MOST_CANDIDATES:
        return None
    for members in range(1, min(_LARGEST_SET, len(held)) + 1):
        for places in combinations(reversed(range(len(held))), members):
            index = torch.tensor(places)
            square = difference @ difference - 2 * projected[index].sum() + gram[index][:, index].sum()
            # The cheap form rounds at 1e-8 of the difference; the exact one decides.
            if float(square) <= max(4 * allowed**2, 1e-12 * size**2):
                chosen = sorted(held[place] for place in places)
                if _left_over(difference, values, chosen) <= allowed:
                    return tuple(chosen)
    return None


def find_writes(trace: Trace, tolerance: float, barred: frozenset[str] = frozenset()) -> list[Write] | None:
    """Return the writes of a block in order, or None where no outputs of its parts sum to what it adds.

    Outputs of the `barred` modules are not taken for writes.
    """
    return _Solver(trace, tolerance, barred).walk(None, trace.entering, trace.leaving)


def nearest_gap(trace: Trace) -> float:
    """Return what the nearest sum of outputs leaves of output - input, relative to the output."""
    difference, size = trace.leaving - trace.entering, float(trace.leaving.norm())
    values = [call.out for call in trace.children(None) if call.out is not None]
    if not values or size == 0:
        return float(difference.norm()) / size if size else 0.0
    matrix = torch.stack(values)
    weights = _weights(matrix @ matrix.T, matrix @ difference)
    return float((difference - (weights > 0.5).to(matrix.dtype) @ matrix).norm()) / size


def diagnose(trace: Trace, tolerance: float) -> str:
    """Say what a block's output is, where it is not its input plus outputs of its parts."""
    size = float(trace.leaving.norm())
    if close(trace.leaving, trace.entering, tolerance):
        return "the output is the input: nothing is added"
    terms = [
        call
        for call in trace.children(None)
        if call.out is not None
        and not close(call.out, trace.leaving, tolerance)
        and float(call.out.norm()) > 0
    ]
    names = ["input", *(call.module for call in terms)]
    matrix = torch.stack([trace.entering, *(call.out for call in terms if call.out is not None)])
    weights = _weights(matrix @ matrix.T, matrix @ trace.leaving)
    left = float((trace.leaving - weights @ matrix).norm()) / size
    if left <= tolerance:
        told = " + ".join(
            f"{weight:.3g} {name}"
            for weight, name in zip(weights.tolist(), names, strict=True)
            if abs(weight) > 1e-3
        )
        return f"the output is {told}: the residual is scaled, and no module gives what is added"
    return (
        "no outputs of its parts sum to output - input: the residual is scaled, normed after the sum, or "
        "added to by no module"
    )


class _Solver:
    def __init__(self, trace: Trace, tolerance: float, barred: frozenset[str]) -> None:
        self.trace, self.tolerance, self.barred = trace, tolerance, barred

    def walk(self, scope: Call | None, base: Tensor, target: Tensor) -> list[Write] | None:
        """Return the writes among the calls that `scope` makes, between two values of the stream."""
        children = self.trace.children(scope)
        found = self._sum(base, target, self._outputs(children))
        if found is not None:
            return found
        # Or the stream itself runs through children that add to it: Residual(norm, attention), add(x, f).
        stream, writes, spare = base, list[Write](), list[Call]()
        for call in children:
            carried = self._carried(call, stream, spare)
            if carried is None or call.out is None:
                spare.append(call)
            else:
                writes += carried
                if writes:
                    writes[-1] = replace(writes[-1], after=call.out)
                stream, spare = call.out, []
        if stream is base:
            return None
        if not close(stream, target, self.tolerance):
            rest = self._sum(stream, target, self._outputs(spare))
            if rest is None:
                return None
            writes += rest
        return writes or None

    def _carried(self, call: Call, stream: Tensor, spare: Sequence[Call]) -> list[Write] | None:
        """Return what was added to the stream up to the end of a call, if the stream runs through it."""
        if call.raw is None:
            return None
        for _, value in call.inputs:
            before = (
                [] if close(value, stream, self.tolerance) else self._sum(stream, value, self._outputs(spare))
            )
            if before is None:
                continue
            if close(call.raw, value, self.tolerance):
                return before
            inside = self._inside(call, value, call.raw, [] if before else spare)
            if inside is not None:
                return [*before, *inside]
        return None

    def _inside(self, call: Call, base: Tensor, target: Tensor, spare: Sequence[Call]) -> list[Write] | None:
        """Explain what one call adds to the stream: by its parts, by earlier calls, or by what it takes."""
        taken = [_Term(call, "input", path, value) for path, value in call.inputs]
        return (
            self.walk(call, base, target)
            or self._sum(base, target, self._outputs(spare))
            or self._sum(base, target, taken)
        )

    def _outputs(self, calls: Sequence[Call]) -> list[_Term]:
        return [
            _Term(call, "output", call.output_path, call.out)
            for call in calls
            if call.out is not None and call.module not in self.barred
        ]

    def _sum(self, base: Tensor, target: Tensor, terms: Sequence[_Term]) -> list[Write] | None:
        size = float(target.norm())
        values = [term.value for term in terms]
        chosen = explain(target - base, values, self.tolerance * size)
        if chosen is None:
            return None
        error = _left_over(target - base, values, chosen) / size
        writes, stream = list[Write](), base
        for place, index in enumerate(chosen, start=1):
            term = terms[index]
            stream = target if place == len(chosen) else stream + term.value
            writes.append(Write(term.call, term.side, term.path, term.value, stream, error))
        return writes


def _weights(gram: Tensor, projected: Tensor) -> Tensor:
    """Return the weights of the best sum; equal tensors share theirs, since the matrix is singular then."""
    inverse: Tensor = torch.linalg.pinv(gram, rtol=1e-12, hermitian=True)
    return inverse @ projected


def _left_over(difference: Tensor, values: Sequence[Tensor], chosen: Sequence[int]) -> float:
    return float((difference - torch.stack([values[index] for index in chosen]).sum(0)).norm())
