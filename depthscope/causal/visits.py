"""An intervention as the places that a forward passes, in the order in which it passes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from depthscope.anatomy import floating, follow, port_value, replaced
from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Edit, Intervention
from depthscope.causal.values import Values
from depthscope.marks import Port

Place = tuple[str, str]
"""(module path, ``input``, ``skip`` or ``output``)."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What is done where a forward passes one side of one module."""

    place: Place
    kept: tuple[Port, ...] = ()
    edits: tuple[Edit, ...] = ()


def plan_visits(
    intervention: Intervention, kept: Iterable[Port], order: Mapping[Place, int]
) -> tuple[Visit, ...]:
    """Return the visits, sorted by `order`; CausalError for a module that is not passed exactly once, or too late."""
    needed = [port for edit in intervention.edits for port in edit.needs]
    by_place: dict[Place, tuple[list[Port], list[Edit]]] = {}
    for port in dict.fromkeys((*needed, *kept)):
        by_place.setdefault((port.module, port.side), ([], []))[0].append(port)
    for edit in intervention.edits:
        by_place.setdefault((edit.port.module, edit.port.side), ([], []))[1].append(edit)
    for skip in intervention.skips:
        by_place.setdefault((skip.path, "skip"), ([], []))
    lost = [f"{module or '(root)'} ({side})" for module, side in by_place if (module, side) not in order]
    stuck = [skip.path for skip in intervention.skips if (skip.path, "skip") not in order]
    if stuck:
        raise CausalError(
            f"{intervention.name}: {', '.join(stuck)} does not run once and give a tensor of its input's shape, so it cannot "
            "be skipped; knock it out instead"
        )
    if lost:
        raise CausalError(
            f"{intervention.name}: a forward does not pass {', '.join(lost)} exactly once, so nothing can be changed there"
        )
    for edit in intervention.edits:
        here = order[edit.port.module, edit.port.side]
        late = [str(port) for port in edit.needs if order[port.module, port.side] > here]
        if late:
            raise CausalError(
                f"{intervention.name}: {edit.port} is passed before {', '.join(late)}, which it needs"
            )
    return tuple(
        Visit(place=place, kept=tuple(by_place[place][0]), edits=tuple(by_place[place][1]))
        for place in sorted(by_place, key=order.__getitem__)
    )


def perform(handles: Mapping[str, Any], visits: Sequence[Visit], values: Values) -> None:
    """Read, keep and change what passes; runs inside a trace, whose forward waits at each visit.

    A kept value is that before the edits of the same place.
    """
    for visit in visits:
        path, side = visit.place
        handle = handles[path]
        if side == "skip":
            handle.skip(torch.zeros_like(_only(handle.inputs)))
            continue
        passing = handle.inputs if side == "input" else handle.output
        for port in visit.kept:
            values.put(port, _value(port, passing))
        changed = passing
        for edit in visit.edits:
            changed = _changed(edit, changed, values)
        if changed is not passing:
            setattr(handle, "inputs" if side == "input" else "output", changed)


def _value(port: Port, passing: Any) -> torch.Tensor:
    args, kwargs, output = (*passing, None) if port.side == "input" else ((), {}, passing)
    found = port_value(port, args, kwargs, output)
    if found is None:
        raise CausalError(f"no floating tensor passes {port}")
    return found


def _changed(edit: Edit, passing: Any, values: Values) -> Any:
    """Return what passes with the edit's tensor replaced; `passing` itself is never changed."""
    port, value = edit.port, _value(edit.port, passing)
    new = edit.change(value, values)
    if new.shape != value.shape:
        raise CausalError(f"{port}: {tuple(value.shape)} passes, and the change gives {tuple(new.shape)}")
    new = new.to(value.dtype)
    if port.side == "output":
        return replaced(passing, _whole_path(passing, port.path), new)
    args, kwargs = passing
    start, *rest = port.path or (0,)
    if isinstance(start, str) or not args:
        return args, replaced(kwargs, _whole_path(kwargs, port.path), new)
    return replaced(args, _whole_path(args, (start, *rest)), new), kwargs


def _whole_path(passing: Any, path: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return `path` with what leads on to its first floating tensor."""
    first, _ = next(floating(follow(passing, path)))
    return (*path, *first)


def _only(passing: Any) -> torch.Tensor:
    args, kwargs = passing
    return next(tensor for _, tensor in floating((args, kwargs)))
