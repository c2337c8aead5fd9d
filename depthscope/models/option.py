"""How a design and its options are typed: what each design file says about itself, and how text is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from depthscope.models.residual import Residual


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a design string: the constructor's argument, how its text is read, what to type.

    `parse` raises ValueError or KeyError for a text that it cannot read.
    """

    argument: str
    parse: Callable[[str], Any]
    example: str


@dataclass(frozen=True, kw_only=True)
class Design:
    """A design that can be typed."""

    name: str
    label: str
    build: Callable[..., Residual]
    example: str
    options: Mapping[str, Option] = field(default_factory=dict)


def numbers(text: str) -> tuple[int, ...]:
    """Read ``4+10+16``."""
    return tuple(int(part) for part in text.split("+"))


def joined(values: Sequence[int]) -> str:
    """Return numbers as `numbers` reads them."""
    return "+".join(map(str, values))


def number_or_none(text: str) -> float | None:
    return None if text == "none" else float(text)


def switch(argument: str, name: str) -> Option:
    """Return the option that is ``yes`` or ``no``."""
    return Option(
        argument=argument, parse={"yes": True, "no": False}.__getitem__, example=f"{name}=yes or {name}=no"
    )


def choice(argument: str, name: str, values: Sequence[str]) -> Option:
    """Return the option that is one of some words."""
    example = " or ".join(f"{name}={value}" for value in values)
    return Option(argument=argument, parse={value: value for value in values}.__getitem__, example=example)


def typed(name: str, **options: object) -> str:
    """Return a design as it is typed; an option that is None is left out."""
    parts = [f"{key}={_text(value)}" for key, value in options.items() if value is not None]
    return f"{name}:{','.join(parts)}" if parts else name


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return joined(value)
    return str(value)
