"""The copy of a model that interventions act on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from depthscope.anatomy import Anatomy, AnatomyError, inspect_model, unwrap
from depthscope.causal.batch import EXPECTED, described, logits_of
from depthscope.causal.error import BatchError, CausalError
from depthscope.causal.intervention import NOTHING, Intervention
from depthscope.causal.labels import Passed, axis_ports, compare
from depthscope.causal.trace import trace, wrap
from depthscope.causal.values import Values
from depthscope.causal.visits import Place, perform, plan_visits
from depthscope.causal.vocabulary import refuse_unknown_tokens
from depthscope.marks import DepthAxis, Port

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A deep copy of a model, in evaluation mode, eager and without gradients, whose places are known and verified.

    The model that it was copied from is never run, wrapped or changed, so it may go on training; what it learns
    later is not seen here. Copy it where no other thread is stepping its optimizer.
    """

    model: nn.Module
    anatomy: Anatomy
    axis: DepthAxis
    plain: Mapping[str, nn.Module]
    """Modules that nnsight has not wrapped, by path, with the copy's parameters: norms and readers of an outer state."""
    final_norm: nn.Module | None
    """What acts on the final read before the head, not wrapped either; None where it is not known as one module."""
    head: nn.Linear | None
    """The same of the head; None where it is no linear layer."""
    width: int
    """d, the width of what a sublayer writes."""
    bytes_per_sequence: int
    """About what one sequence of a forward takes without gradients."""
    _root: Any
    _handles: Mapping[str, Any]
    _order: Mapping[Place, int]
    _tensors: Mapping[str, tuple[tuple[int | str, ...], ...]]

    @classmethod
    def of(
        cls,
        model: nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        anatomy: Anatomy | None = None,
    ) -> Subject:
        """Copy `model`, and verify on one forward that each place shows through nnsight what it shows to a hook.

        Args:
            model: any module that `inspect_model` knows the depth axis of; wrappers are taken off.
            args: positional arguments of one forward.
            kwargs: its keyword arguments.
            anatomy: what `inspect_model` found, where its own look does not suffice. Needed as well where another
                thread trains with dropout and the model does not describe itself: looking runs the copy, and puts
                back the process's random state afterwards.

        Raises:
            BatchError: the forward raised, or a token id is none of the vocabulary.
            CausalError: no depth axis was found, or a place shows something else than it should.
        """
        call = dict(kwargs or {})
        copied = copy.deepcopy(unwrap(model)).eval().requires_grad_(False)
        if anatomy is None:
            anatomy = _inspected(copied, args, call)
        if anatomy.axis is None:
            raise CausalError(f"{anatomy.model}: no depth axis is known. {' '.join(anatomy.notes)}")
        axis = anatomy.axis
        refuse_unknown_tokens(copied, axis, args, call)
        # Before anything is wrapped: these may be called at any time.
        final_norm, head = (
            _only_module(copied, names) for names in (axis.final_norm_parameters, axis.head_parameters)
        )
        paths = [port.module for block in axis.outer for port in (block.state, block.carry)]
        if axis.outer_end is not None:
            paths.append(axis.outer_end.module)
        plain = {path: _unwrapped(copied.get_submodule(path)) for path in paths}
        ports, hooked = axis_ports(axis), _values(axis)
        passed = Passed(copied, ports, hooked)
        try:
            output = passed.run(args, call)
        except Exception as error:
            raise _forward_raised(copied, error, args, call) from error
        unseen = [sublayer.name for sublayer in axis.sublayers if sublayer.write not in hooked]
        if unseen:
            raise CausalError(f"{anatomy.model}: a forward shows no write of {', '.join(unseen)}")
        root, handles = wrap(copied)
        writes = [hooked[sublayer.write] for sublayer in axis.sublayers]
        subject = cls(
            model=copied,
            anatomy=anatomy,
            axis=axis,
            plain=plain,
            final_norm=final_norm,
            head=head if isinstance(head, nn.Linear) else None,
            width=int(writes[0].shape[-1]),
            bytes_per_sequence=_bytes(logits_of(output), writes, passed.largest),
            _root=root,
            _handles=handles,
            _order=passed.order,
            _tensors=passed.tensors,
        )
        shown = [port for port in ports if (port.module, port.side) in passed.order]
        compare(subject.look(args, call, shown)[1], hooked, shown)
        return subject

    def look(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        kept: Iterable[Port] = (),
        intervention: Intervention = NOTHING,
    ) -> tuple[Any, Values]:
        """Run one forward under an intervention; return the model's output and what passed the `kept` ports."""
        visits = plan_visits(intervention, kept, self._order)
        values, output = _values(self.axis), []

        def work() -> None:
            perform(self._handles, visits, values)
            output.append(self._root.output)

        trace(self._root, args, kwargs, work)
        return output[0], values

    def tensors_at(self, port: Port) -> tuple[tuple[int | str, ...], ...]:
        """Return where the floating tensors are inside what passes an output port, as paths."""
        depth = len(port.path)
        found = self._tensors.get(port.module, ())
        return tuple(path[depth:] for path in found if path[:depth] == port.path)


def _inspected(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Anatomy:
    try:
        return inspect_model(model, dict(kwargs) or tuple(args))
    except AnatomyError as error:
        if error.__cause__ is None:
            raise CausalError(str(error)) from error
        raise _forward_raised(model, error.__cause__, args, kwargs) from error


def _forward_raised(
    model: nn.Module, error: BaseException, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BatchError:
    given = ", ".join(
        [*map(described, args), *(f"{name}={described(each)}" for name, each in kwargs.items())]
    )
    return BatchError(
        f"the forward of {type(model).__name__} raised {type(error).__name__} when it was given {given}: {error}; "
        f"expected {EXPECTED}"
    )


def _only_module(model: nn.Module, names: Sequence[str]) -> nn.Module | None:
    found = dict(model.named_modules()).get(names[0]) if len(names) == 1 else None
    return None if found is None else _unwrapped(found)


def _unwrapped(module: M) -> M:
    """Return a copy that shares the parameters; made before nnsight wraps the module."""
    return copy.deepcopy(module, {id(each): each for each in (*module.parameters(), *module.buffers())})


def _bytes(logits: Tensor, writes: Sequence[Tensor], largest: int) -> int:
    """Return what one sequence takes: every write is kept as a source, logits pass a softmax in float32."""
    kept = sum(write.numel() * write.element_size() for write in writes)
    return int(kept + 8 * largest + 4 * 4 * logits.numel()) // int(logits.shape[0])


def _values(axis: DepthAxis) -> Values:
    return Values({mixer.weights: 1 for mixer in axis.mixers})
