"""Picking tensors out of what passes a module: tuples, lists, mappings, dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from depthscope.marks import Port

Path = tuple[int | str, ...]


def port_value(port: Port, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> Tensor | None:
    """Return the floating tensor that passes `port`, or None where there is none.

    `args`, `kwargs` and `output` are what a forward hook sees; for an input port `output` is not looked at.
    What `port.path` leads to may itself hold tensors: then its first floating tensor counts.
    """
    if port.side == "output":
        return first_floating(follow(output, port.path))
    if not port.path:
        return first_floating(args[0] if args else kwargs)
    start, *rest = port.path
    arguments: Any = kwargs if isinstance(start, str) else args
    return first_floating(follow(arguments, (start, *rest)))


def first_floating(value: Any) -> Tensor | None:
    """Return the first floating tensor in `value`, depth first."""
    return next((tensor for _, tensor in floating(value)), None)


def floating(value: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Yield every floating tensor in `value` with the path that leads to it."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield path, value
        return
    for part, item in _items(value):
        yield from floating(item, (*path, part))


def floating_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[Path, Tensor]]:
    """Yield every floating tensor among a call's arguments, with its path as an input port writes it."""
    yield from floating(tuple(args))
    yield from floating(dict(kwargs))


def follow(value: Any, path: Path) -> Any:
    """Return what `path` leads to inside `value`; None where it leads nowhere."""
    for part in path:
        value = _step(value, part)
        if value is None:
            return None
    return value


def replaced(value: Any, path: Path, tensor: Tensor) -> Any:
    """Return `value` with `tensor` at `path`; containers on the way are copied, never changed."""
    if not path:
        return tensor
    part, rest = path[0], path[1:]
    inner = replaced(_step(value, part), rest, tensor)
    if type(value) is dict:
        return {**value, part: inner}  # compiled code can't trace a copy
    if isinstance(value, Mapping):
        changed: Any = copy.copy(value)
        changed[part] = inner
        return changed
    if isinstance(value, list | tuple) and isinstance(part, int):
        items = list(value)
        items[part] = inner
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    changed = copy.copy(value)
    object.__setattr__(changed, str(part), inner)
    return changed


def _items(value: Any) -> Iterator[tuple[int | str, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name)


def _step(value: Any, part: int | str) -> Any:
    if isinstance(value, Mapping):
        if part in value:
            return value[part]
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        inside = isinstance(part, int) and -len(value) <= part < len(value)
        return value[part] if inside and isinstance(part, int) else None
    if dataclasses.is_dataclass(value) and isinstance(part, str):
        return getattr(value, part, None)
    return None
