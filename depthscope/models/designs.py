"""Designs by name: ``"block-attnres:S=6"`` -> a residual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from depthscope.models.attnres import BlockAttnRes, FullAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.hires import HiRes
from depthscope.models.prenorm import PreNorm
from depthscope.models.residual import Residual


class DesignError(ValueError):
    """A design string that cannot be built; the message says what was found, expected and to type."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a design string: the constructor's argument, how its text is read, what to type."""

    argument: str
    parse: Callable[[str], Any]
    example: str


@dataclass(frozen=True, kw_only=True)
class Design:
    """A design that can be typed."""

    name: str
    label: str
    build: Callable[..., Residual]
    options: Mapping[str, Option]
    example: str


def _whole(text: str) -> int:
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+"))


def _gate(text: str) -> float | None:
    return None if text == "none" else float(text)


def _switch(text: str) -> bool:
    return {"yes": True, "no": False}[text]


def _block_output(text: str) -> str:
    return {"stream": "stream", "increment": "increment"}[text]


def _block_attnres(config: DecoderConfig, **options: Any) -> Residual:
    return BlockAttnRes(config, **(options or {"block_size": 6}))


_BOUNDARIES = Option(argument="boundaries", parse=_numbers, example="boundaries=4+10+16")

_ALL = (
    Design(name=PreNorm.name, label=PreNorm.label, build=PreNorm, options={}, example="prenorm"),
    Design(
        name=FullAttnRes.name, label=FullAttnRes.label, build=FullAttnRes, options={}, example="full-attnres"
    ),
    Design(
        name=BlockAttnRes.name,
        label=BlockAttnRes.label,
        build=_block_attnres,
        options={"S": Option(argument="block_size", parse=_whole, example="S=6"), "boundaries": _BOUNDARIES},
        example="block-attnres:S=6",
    ),
    Design(
        name=HiRes.name,
        label=HiRes.label,
        build=HiRes,
        options={
            "n": Option(argument="n", parse=float, example="n=2"),
            "B": Option(argument="blocks", parse=_whole, example="B=4"),
            "boundaries": _BOUNDARIES,
            "gate": Option(argument="gate", parse=_gate, example="gate=0.1 or gate=none"),
            "outer": Option(argument="outer_residual", parse=_switch, example="outer=yes or outer=no"),
            "norm": Option(argument="boundary_norm", parse=_switch, example="norm=yes or norm=no"),
            "frozen": Option(argument="frozen", parse=_switch, example="frozen=yes or frozen=no"),
            "phi": Option(
                argument="block_output", parse=_block_output, example="phi=stream or phi=increment"
            ),
        },
        example="hires:n=2,B=4",
    ),
)

DESIGNS: Mapping[str, Design] = MappingProxyType({design.name: design for design in _ALL})
"""Every design by the name that is typed."""


def residual_from_string(text: str, config: DecoderConfig) -> Residual:
    """Build the design that `text` names: ``name`` or ``name:option=value,option=value``.

    ``block-attnres`` alone has S=6, ``hires`` alone n=2 and B=4 (or the next lower that fits). Lists are joined with ``+``. Raises DesignError
    for an unknown name or option, a value that cannot be read, and options that do not fit `config`.
    """
    name, _, rest = text.strip().partition(":")
    design = DESIGNS.get(name)
    if design is None:
        near = get_close_matches(name, DESIGNS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DesignError(f"unknown design {name!r}: expected one of {', '.join(DESIGNS)}{hint}")
    arguments: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        option = design.options.get(key)
        if option is None:
            known = ", ".join(design.options) or "none"
            raise DesignError(
                f"{text!r}: {name} has no option {key!r}; its options: {known} ({design.example})"
            )
        if not equals or not value:
            raise DesignError(f"{text!r}: option {key!r} has no value; type {option.example}")
        if option.argument in arguments:
            raise DesignError(f"{text!r}: option {key!r} is given twice")
        try:
            arguments[option.argument] = option.parse(value)
        except (ValueError, KeyError):
            raise DesignError(f"{text!r}: cannot read {key}={value!r}; type {option.example}") from None
    try:
        return design.build(config, **arguments)
    except ValueError as error:
        raise DesignError(f"{text!r}: {error}") from None
