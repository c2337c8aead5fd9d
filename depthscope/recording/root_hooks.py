"""The beginning and the end of every forward of the module that the loop calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from depthscope.recording.arming import Arming
from depthscope.recording.hooks import ModelHook


class ForwardListener(Protocol):
    """What is told of each forward; `after_forward` comes whether it returned or raised."""

    def before_forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None: ...
    def forward_completed(self) -> None: ...
    def after_forward(self) -> None: ...


class _Before(ModelHook):
    def __init__(self, listener: ForwardListener, arming: Arming) -> None:
        self.listener, self.arming = listener, arming

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():
            self.arming.enter(module, args, kwargs)
        else:
            self.listener.before_forward(module, args, kwargs)


class _Then(ModelHook):
    def __init__(self, tell: Callable[[], None], arming: Arming) -> None:
        self.tell, self.arming = tell, arming

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if torch.compiler.is_compiling():
            self.arming.leave(module)
        else:
            self.tell()


def attach_root(model: nn.Module, listener: ForwardListener, arming: Arming) -> list[RemovableHandle]:
    """Register the hooks on `model` and return their handles."""
    return [
        # First of all: a sharded root gathers its parameters in a hook of its own, and finding the depth axis calls
        # the model once more.
        model.register_forward_pre_hook(_Before(listener, arming), with_kwargs=True, prepend=True),
        model.register_forward_hook(_Then(listener.forward_completed, arming)),
        model.register_forward_hook(_Then(listener.after_forward, arming), always_call=True),
    ]
