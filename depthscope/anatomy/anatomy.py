"""`inspect_model`: where the depth axis of a model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from depthscope.anatomy.blocks import Candidate, find_blocks
from depthscope.anatomy.described import described_axis, with_overrides
from depthscope.anatomy.error import AnatomyError
from depthscope.anatomy.finding import Check
from depthscope.anatomy.plan import Guess, Plan, checked_plan
from depthscope.anatomy.settle import settle
from depthscope.anatomy.table import table
from depthscope.anatomy.wrappers import is_compiled, unwrap
from depthscope.marks import DepthAxis, Mixer

DESCRIBED = "described by the model"
SOLVED = "residual-write solve"
EXPLICIT = "explicit"


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """The depth axis of a model, how it was found, and what of it is missing. Printing it gives a table."""

    model: str
    """Class of the model."""
    axis: DepthAxis | None
    """None until a forward was seen, and where no sublayer could be recorded: then `notes` say why."""
    found_by: str
    blocks: tuple[str, ...] = ()
    """Module paths of the transformer blocks; empty where the model describes itself."""
    candidates: tuple[Candidate, ...] = ()
    """The lists of modules that could hold the blocks, the chosen one first."""
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing, and why."""
    settled: bool = False
    """Whether a forward was seen, so that `axis` is the answer."""
    guess: tuple[Guess, ...] = ()
    """Before that: what looks like sublayers."""
    plan: Plan = field(default_factory=Plan, repr=False)

    def settle(self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Anatomy:
        """Return the anatomy with its axis, found on one extra forward of `model`.

        The forward runs without gradients and in evaluation mode; each block runs a few times more by
        itself, in training mode too, to see what is added there. Random states, training flags, buffers,
        attributes and gradients are afterwards as before, bitwise, and the temporary hooks are gone. Hooks of
        your own stay, and fire during these runs as in any forward. A settled anatomy is returned as it is.

        Args:
            model: the model that was inspected, wrapped or not.
            args: positional arguments of its forward.
            kwargs: keyword arguments of its forward.

        Raises:
            AnatomyError: the forward raised, or parameters are not made yet (lazy modules).
        """
        if self.settled:
            return self
        found = settle(self.plan, unwrap(model), args, kwargs)
        return replace(
            self,
            axis=found.axis,
            checks=found.checks,
            notes=(*self.notes, *found.notes),
            settled=True,
            guess=(),
        )

    def __str__(self) -> str:
        return table(self)


def inspect_model(
    model: nn.Module,
    example: Any = None,
    *,
    blocks: str | nn.Module | Sequence[str | nn.Module] | None = None,
    attention: str | None = None,
    mlp: str | None = None,
    block_size: int | Sequence[int] | None = None,
    mixers: Sequence[Mixer] | None = None,
) -> Anatomy:
    """Find the depth axis of `model`: its sublayers and where each read, write and state passes.

    A model with a ``describe_depth()`` is taken by its word. Any other is looked into: its blocks are the
    list of modules that holds most of it, and its sublayers are the modules whose outputs sum to what a block
    adds to the residual stream, found by running it on `example`. Without an example (Hugging Face models
    bring their own) the anatomy holds a guess only, and `Anatomy.settle` finds the rest on the first training
    forward.

    Args:
        model: the module that you call, before ``torch.compile``.
        example: arguments of its forward: a tensor, a tuple of positional arguments, or a dict of keywords.
        blocks: the path of the list of transformer blocks, or the blocks themselves (paths or modules).
        attention: path inside a block of the module that is the attention; it wins over what is found, as
            long as the numbers bear it out.
        mlp: the same for the MLP.
        block_size: sublayers in a residual block, or the numbers of sublayers before each block's end.
        mixers: depth mixers, as `depthscope.marks.Mixer` records.

    Raises:
        AnatomyError: no blocks, several lists that could be them, a name that the model does not have, or a
            forward that raised. The message says what to type.
    """
    if not isinstance(model, nn.Module):
        raise AnatomyError(f"expected a torch.nn.Module, found {type(model).__name__}")
    inner, name = unwrap(model), type(unwrap(model)).__name__
    notes: tuple[str, ...] = ()
    if is_compiled(model):
        notes = (
            (
                "the model is compiled already: attach before torch.compile(model), or call "
                "torch.compiler.reset() after attaching; hooks that come after the first compiled call are "
                "ignored without a word"
            ),
        )
    axis = described_axis(inner)
    if axis is not None:
        axis = with_overrides(axis, block_size, mixers, inner)
        return Anatomy(model=name, axis=axis, found_by=DESCRIBED, notes=notes, settled=True)
    paths, candidates = find_blocks(inner, blocks)
    plan = checked_plan(inner, paths, attention, mlp, block_size, mixers)
    told = any(value is not None for value in (blocks, attention, mlp))
    anatomy = Anatomy(
        model=name,
        axis=None,
        found_by=EXPLICIT if told else SOLVED,
        blocks=paths,
        candidates=candidates,
        notes=notes,
        guess=plan.guess(inner),
        plan=plan,
    )
    if example is not None:
        return anatomy.settle(inner, *call_arguments(example))
    return _settled_on_dummies(anatomy, inner)


def call_arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments that a tensor, a tuple or a dict stands for."""
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, tuple | list) else ((example,), {})


def _settled_on_dummies(anatomy: Anatomy, model: nn.Module) -> Anatomy:
    """Hugging Face models know inputs that they take."""
    dummies = getattr(model, "dummy_inputs", None)
    parameter = next(model.parameters(), None)
    if not isinstance(dummies, Mapping) or parameter is None or parameter.is_meta:
        return anatomy
    moved = {k: v.to(parameter.device) if isinstance(v, Tensor) else v for k, v in dummies.items()}
    try:
        return anatomy.settle(model, (), moved)
    except AnatomyError:
        return anatomy
