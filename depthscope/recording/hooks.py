"""Hooks on a model that show what passes its ports; detached they leave no trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from depthscope.anatomy import port_value
from depthscope.marks import Port
from depthscope.probes import Activation
from depthscope.recording.observer import Observer
from depthscope.recording.precision import full_precision
from depthscope.recording.traced import Role, TracedPorts

Show: TypeAlias = Callable[[Activation, Tensor], None]
Guard: TypeAlias = Callable[[Callable[[], None]], None]


def _inert(*_: Any, **__: Any) -> None:
    """What a hook becomes in a copy, a pickle or another process."""


def _inert_hook() -> Callable[..., None]:
    return _inert


class ModelHook:
    """A hook that is copied and pickled as one that does nothing: a copied model is not recorded."""

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _inert_hook, ()


class _PortHook(ModelHook):
    """Shows the tensors at the ports of one side of one module, to the observer or within a trace."""

    def __init__(
        self,
        observer: Observer,
        guard: Guard,
        shown: Mapping[Port, list[Show]],
        traced: TracedPorts | None,
    ) -> None:
        self.observer, self.guard, self.shown, self.traced = observer, guard, shown, traced

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any = None
    ) -> Any:
        if torch.compiler.is_compiling():
            return self.traced(args, kwargs, output) if self.traced is not None else None
        if self.shown and self.observer.watching:
            self._show(args, kwargs, output)
        return None

    def _show(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:

        def show() -> None:
            for port, actions in self.shown.items():
                tensor = port_value(port, args, kwargs, output)
                if tensor is None or not torch.is_floating_point(tensor):
                    continue
                self.observer.low_precision |= tensor.dtype in (torch.float16, torch.bfloat16)
                if not self.observer.fits(port, tensor):
                    continue
                seen = self.observer.see(tensor)
                with full_precision(tensor):
                    for action in actions:
                        action(seen, tensor)

        self.guard(show)


class _MixerHook(ModelHook):
    """Shows what a depth mixer took and made."""

    def __init__(self, observer: Observer, guard: Guard, target: int) -> None:
        self.observer, self.guard, self.target = observer, guard, target

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not self.observer.live or torch.compiler.is_compiling():
            return

        def show() -> None:
            with full_precision(output):
                self.observer.see_mix(self.target, args[0], output)

        self.guard(show)


def attach(
    observer: Observer, model: nn.Module, guard: Guard, roles: Mapping[Port, Sequence[Role]]
) -> list[RemovableHandle]:
    """Register the hooks of every port of the observer's axis on `model` (unwrapped); return their handles.

    `roles` say what is done at each port inside compiled code.
    """
    handles: list[RemovableHandle] = []
    places: defaultdict[tuple[str, str], defaultdict[Port, list[Show]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for port, show in _shows(observer):
        places[port.module, port.side][port].append(show)
    traced: defaultdict[tuple[str, str], list[tuple[Port, tuple[Role, ...]]]] = defaultdict(list)
    for port, acting in roles.items():
        traced[port.module, port.side].append((port, tuple(acting)))
    for path, side in dict.fromkeys((*places, *traced)):
        ports = traced.get((path, side))
        inside = (
            TracedPorts(observer.arming, tuple(ports), observer.axis.without_positions) if ports else None
        )
        hook = _PortHook(observer, guard, places[path, side], inside)
        module = model.get_submodule(path)
        if side == "input":
            handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        else:
            handles.append(module.register_forward_hook(hook, with_kwargs=True))
    for mixer in observer.axis.mixers:
        mixer_hook = _MixerHook(observer, guard, mixer.target)
        handles.append(model.get_submodule(mixer.module).register_forward_hook(mixer_hook))
    return handles


def _shows(observer: Observer) -> list[tuple[Port, Show]]:
    """Every port with what to do there; a state comes before the read that is the same tensor."""
    axis = observer.axis
    shows: list[tuple[Port, Show]] = []

    def add(port: Port | None, action: Callable[..., None], *where: Any) -> None:
        if port is not None:
            shows.append((port, lambda seen, tensor: action(*where, seen, tensor)))

    for mixer in axis.mixers:
        add(mixer.weights, observer.see_weights, mixer.target)
    for mixing in axis.streams:
        add(mixing.weights, observer.see_stream_mixing, mixing)
    add(axis.embedding, observer.see_embedding)
    for sublayer in axis.sublayers:
        add(sublayer.state, observer.see_state, sublayer.index)
    for sublayer in axis.sublayers:
        add(sublayer.read, observer.see_read, sublayer.index)
        add(sublayer.output, observer.see_output, sublayer.index)
        add(sublayer.write, observer.see_write, sublayer.index)
        add(sublayer.state_prenorm, observer.see_state_prenorm, sublayer.index)
    add(axis.final_read, observer.see_final_read)
    for block in axis.outer:
        add(block.state, observer.see_outer, block.index, "state")
    for block in axis.outer:
        add(block.carry, observer.see_outer, block.index, "carry")
        add(block.read, observer.see_outer, block.index, "outer_read")
        add(block.write, observer.see_outer, block.index, "write")
        add(block.boundary, observer.see_outer, block.index, "boundary")
    return shows
