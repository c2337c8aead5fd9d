"""What is known about a model before its forward was seen: the blocks, and what the caller said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from depthscope.anatomy.children import direct_children, is_sublayer_like, join, kind_by_shape
from depthscope.anatomy.error import AnatomyError
from depthscope.anatomy.probe import Told
from depthscope.anatomy.words import Kind
from depthscope.marks import Mixer


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A module that looks like a sublayer."""

    block: int
    """Counted from 1."""
    module: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The blocks of a model and the overrides, kept until a forward settles the rest."""

    blocks: tuple[str, ...] = ()
    told: Told = field(default_factory=Told)
    block_size: int | tuple[int, ...] | None = None
    mixers: tuple[Mixer, ...] = ()

    def residual_block(self, layer: int, layers: int) -> int:
        """Return the residual block of a layer, both counted from 1; 0 without residual blocks."""
        if self.block_size is None:
            return 0
        if isinstance(self.block_size, int):
            return (layer - 1) // self.block_size + 1
        ends = [end for end in self.block_size if end < layers]
        return sum(layer > end for end in ends) + 1

    def guess(self, model: nn.Module) -> tuple[Guess, ...]:
        """Guess the sublayers by looking: children that are neither norm, dropout nor identity."""
        guesses = []
        for number, path in enumerate(self.blocks, start=1):
            block = model.get_submodule(path)
            named = list(self.told.items())
            if not named:
                children = [item for item in direct_children(block) if is_sublayer_like(item[1])]
                named = [(kind_by_shape([child]), name) for name, child in children]
            guesses += [Guess(block=number, module=join(path, name), kind=kind) for kind, name in named]
        return tuple(guesses)


def checked_plan(
    model: nn.Module,
    blocks: tuple[str, ...],
    attention: str | None,
    mlp: str | None,
    block_size: int | Sequence[int] | None,
    mixers: Sequence[Mixer] | None,
) -> Plan:
    """Return the plan, once every name that was given is a module's and every size makes sense.

    Raises:
        AnatomyError: with what was found and what to type.
    """
    for kind, name in (("attention", attention), ("mlp", mlp)):
        if name is not None:
            _check_child(model, blocks, kind, name)
    if isinstance(block_size, int) and block_size < 1:
        raise AnatomyError(f"block_size={block_size}: expected a number of sublayers of 1 or more")
    if block_size is not None and not isinstance(block_size, int):
        block_size = tuple(block_size)
        rising = all(one < other for one, other in zip((0, *block_size), block_size, strict=False))
        if not block_size or not rising:
            raise AnatomyError(
                f"block_size={list(block_size)}: expected rising numbers of sublayers, one for the end of "
                "each residual block, e.g. block_size=[6, 12]"
            )
    paths = {path for path, _ in model.named_modules()}
    for mixer in mixers or ():
        if mixer.module not in paths:
            raise AnatomyError(
                f"mixers= names {mixer.module!r}, which is no module of {type(model).__name__}"
            )
    return Plan(
        blocks=blocks,
        told=Told(attention=attention, mlp=mlp),
        block_size=block_size,
        mixers=tuple(mixers or ()),
    )


def _check_child(model: nn.Module, blocks: Sequence[str], kind: str, name: str) -> None:
    for path in blocks:
        if any(inner == name for inner, _ in model.get_submodule(path).named_modules()):
            return
    children = ", ".join(f"{inner}" for inner, _ in direct_children(model.get_submodule(blocks[0])))
    raise AnatomyError(
        f"{kind}={name!r} is no module of the blocks ({blocks[0]} has {children or 'no children'}); expected "
        f'a path relative to the block, e.g. {kind}="{children.split(",")[0] or "name"}"'
    )
