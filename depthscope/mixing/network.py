"""A model run again as nothing but its residual network: every sublayer gives what it is told to give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.anatomy import floating, follow, port_value, replaced
from depthscope.marks import Port
from depthscope.mixing.error import MixingError
from depthscope.mixing.frozen_terms import FrozenTerms
from depthscope.mixing.function_tape import FunctionTape
from depthscope.mixing.lookups import NoLookups
from depthscope.mixing.places import Places


class RecomputedError(RuntimeError):
    """A checkpoint ran part of the model again, inside a backward, where no tape is on."""


class ResidualNetwork:
    """Reads of one model on one batch as a function of its origins' outputs.

    Made inside `depthscope.anatomy.untouched`, in which it runs the model once as it is. `values` are then the
    outputs of the origins, each [batch, time, d], and `reads` the reads of the targets; None where none was seen.
    """

    def __init__(
        self, model: nn.Module, places: Places, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.model, self.places, self._args, self._kwargs = model, places, tuple(args), dict(kwargs)
        self._seen: dict[int, Tensor] = {}
        self._outputs: dict[int, Any] = {}
        self._reads: dict[int, Tensor] = {}
        self._values: Sequence[Tensor] = ()
        self._terms: FrozenTerms | None = None
        with ExitStack() as hooks:
            self._watch(hooks, self.places.origins, self._note_origin)
            self._watch(hooks, self.places.targets, self._note_read)
            self.model(*self._args, **self._kwargs)
        silent = [str(port) for place, port in enumerate(places.origins) if place not in self._seen]
        if silent:
            raise MixingError(f"nothing passed {silent[0]} in the forward that was to be replayed")
        self.values = [self._seen[place] for place in range(len(places.origins))]
        self.reads = self._taken()

    @property
    def low_precision(self) -> bool:
        """Some output or read is fp16 or bf16, or products of matrices are rounded to less than fp32 (TF32)."""
        seen = (*self.values, *(read for read in self.reads if read is not None))
        narrow = any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in seen)
        return narrow or torch.get_float32_matmul_precision() != "highest"

    def run(
        self, values: Sequence[Tensor], tape: AbstractContextManager[object], *, lookups: bool = True
    ) -> list[Tensor | None]:
        """Return the reads when the origins give `values`; `tape` records or replays what depends on the state.

        Without `lookups`, embeddings that come into the stream beside the first origin (brought in again behind it, or
        from tables of their own) give nothing either.
        """
        self._values, self._reads = values, {}
        self._terms = tape.terms if isinstance(tape, FunctionTape) and not tape.replaying else None
        with ExitStack() as hooks:
            for place, port in enumerate(self.places.origins):
                if port.side == "output" and not self._holds_a_place(port):
                    hooks.enter_context(
                        _silenced(self.model.get_submodule(port.module), self._outputs[place])
                    )
            self._watch(hooks, self.places.origins, self._give)
            self._watch(hooks, self.places.targets, self._note_read)
            if not lookups:
                hooks.enter_context(NoLookups())
            hooks.enter_context(tape)
            self.model(*self._args, **self._kwargs)
        self._values, self._terms = (), None
        return self._taken()

    @contextmanager
    def once_only(self) -> Iterator[None]:
        """Run the body, a backward, and raise RecomputedError if a checkpoint in it runs some module again."""

        def refuse(*_: Any) -> None:
            raise RecomputedError

        with ExitStack() as hooks:
            for module in self.model.modules():
                hooks.callback(module.register_forward_pre_hook(refuse).remove)
            try:
                yield
            except RuntimeError as error:
                if "checkpoint" in str(error):  # a reentrant one says itself that it does not do
                    raise RecomputedError from error
                raise

    def _taken(self) -> list[Tensor | None]:
        reads, self._reads = self._reads, {}
        return [reads.get(target) for target in range(len(self.places.targets))]

    def _holds_a_place(self, port: Port) -> bool:
        """Whether another place lies inside the module, which then has to run."""
        places = (*self.places.origins, *self.places.targets)
        return any(each is not None and each.module.startswith(f"{port.module}.") for each in places)

    # --- at the ports -----------------------------------------------------------------------------------

    def _watch(self, hooks: ExitStack, ports: Sequence[Port | None], act: Callable[..., Any]) -> None:
        """Have `act` called with place, port, what passes, and how to change it; in the order of registration."""
        for place, port in enumerate(ports):
            if port is None:
                continue
            module = self.model.get_submodule(port.module)
            if port.side == "output":

                def after(
                    module: nn.Module,
                    args: Any,
                    kwargs: Any,
                    output: Any,
                    *,
                    place: int = place,
                    port: Port = port,
                ) -> Any:
                    return act(place, port, args, kwargs, output)

                handle = module.register_forward_hook(after, with_kwargs=True)
            else:

                def before(
                    module: nn.Module, args: Any, kwargs: Any, *, place: int = place, port: Port = port
                ) -> Any:
                    return act(place, port, args, kwargs, None)

                handle = module.register_forward_pre_hook(before, with_kwargs=True)
            hooks.callback(handle.remove)

    def _note_origin(self, place: int, port: Port, args: Any, kwargs: Any, output: Any) -> None:
        if place in self._seen:
            raise MixingError(f"{port} passes several times in one forward: its outputs are not told apart")
        tensor = port_value(port, args, kwargs, output)
        if tensor is not None:
            self._seen[place], self._outputs[place] = tensor.detach().clone(), output

    def _note_read(self, target: int, port: Port, args: Any, kwargs: Any, output: Any) -> None:
        tensor = port_value(port, args, kwargs, output)
        if tensor is not None:
            if target in self._reads:
                raise MixingError(f"{port} passes several times in one forward: its reads are not told apart")
            if self._terms is not None and (by := self._terms.of(tensor)):
                raise MixingError(
                    f"{port} takes in what {by} gives, not scaled by it: a nonlinear function of the stream has no parts"
                )
            self._reads[target] = tensor.clone()  # the model may go on to change it in place

    def _give(self, place: int, port: Port, args: Any, kwargs: Any, output: Any) -> Any:
        value = self._values[place].clone()
        if self._terms is not None:
            self._terms.origin(value)
        if port.side == "output":
            path = _path(self._outputs[place], port)
            return replaced(self._outputs[place], path, value)
        start, *rest = port.path or (0,) if args else port.path or (next(iter(kwargs)),)
        if isinstance(start, str):
            return args, {**kwargs, start: replaced(kwargs[start], tuple(rest), value)}
        return replaced(tuple(args), (start, *rest), value), kwargs


def _path(output: Any, port: Port) -> tuple[int | str, ...]:
    """Return the whole path to the tensor of an output port; the port's may end at what holds it."""
    inside, _ = next(iter(floating(follow(output, port.path))))
    return (*port.path, *inside)


@contextmanager
def _silenced(module: nn.Module, output: Any) -> Iterator[None]:
    """Let `module` return `output` without computing it; its hooks fire as ever."""
    held = module.__dict__
    earlier = held.get("forward")

    def give(*args: Any, **kwargs: Any) -> Any:
        return output

    held["forward"] = give
    try:
        yield
    finally:
        if earlier is None:
            held.pop("forward", None)
        else:
            held["forward"] = earlier
