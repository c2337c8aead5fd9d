"""Finding frozen outputs of nonlinear functions that are terms of a read, and no factors in it.

Frozen, a gate or a mixing weight is a number that scales. What an activation gives to the stream itself is frozen too, and
would be counted as if no origin had brought it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from depthscope.mixing.lookups import is_lookup

_SUMS = frozenset(
    function
    for holder in (torch, Tensor)
    for name in [
        "add",
        "sub",
        "rsub",
        "subtract",
        "add_",
        "sub_",
        "__add__",
        "__radd__",
        "__iadd__",
        "__sub__",
        "__rsub__",
        "__isub__",
        "cat",
        "concat",
        "stack",
    ]
    if (function := getattr(holder, name, None)) is not None
)


@dataclass(frozen=True)
class _Mark:
    """How a tensor depends on the origins, and which nonlinear function stands in between."""

    kind: Literal["linear", "factor", "term"]
    by: str = ""


_LINEAR = _Mark("linear")


class FrozenTerms:
    """Follows tensors by identity through the functions of one forward."""

    def __init__(self) -> None:
        self._marks: MutableMapping[Tensor, _Mark] = cast(
            "MutableMapping[Tensor, _Mark]", WeakIdKeyDictionary()
        )

    def origin(self, tensor: Tensor) -> None:
        """Note what an origin gives."""
        self._marks[tensor] = _LINEAR

    def of(self, tensor: Tensor) -> str:
        """Return the function whose frozen output is a term of `tensor`; empty for none."""
        mark = self._marks.get(tensor)
        return "" if mark is None or mark.kind == "linear" else mark.by

    def called(
        self, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], result: Any, *, frozen: bool
    ) -> None:
        """Note a call; `frozen`: a replay gives what it gave, whatever the origins give."""
        marks = [mark for tensor in _tensors((args, kwargs)) if (mark := self._marks.get(tensor)) is not None]
        if is_lookup(function, args):
            marks.append(_LINEAR)
        if not marks:
            return
        mark = _Mark("factor", _name(function)) if frozen else _combined(function, marks)
        for tensor in _tensors(result):
            if tensor.is_floating_point():
                self._marks[tensor] = mark
        if function is Tensor.__setitem__ and mark.kind != "factor":
            self._marks[args[0]] = mark


def _combined(function: Callable[..., Any], marks: Iterable[_Mark]) -> _Mark:
    by_kind = {mark.kind: mark for mark in marks}
    if "term" in by_kind:
        return by_kind["term"]
    if "factor" in by_kind and "linear" in by_kind:
        return _Mark("term", by_kind["factor"].by) if function in _SUMS else _LINEAR
    return by_kind.get("factor", _LINEAR)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function)).strip("_")
