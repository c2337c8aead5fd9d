"""Reading parameter gradients exactly as the optimizer uses them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from depthscope.recording.evaluations import Evaluations
from depthscope.recording.shards import local_gradient
from depthscope.recording.values import Value

_CALLERS = 8
"""Frames to look through for a GradScaler: its step is three or four calls away."""


class OptimizerReader:
    """Hooks on one or several optimizers: gradients and learning rate at the moment of their step.

    The pre-hook sees gradients after clipping and unscaling. An optimizer stepped with a closure computes its
    gradients inside, so those are read in the post-hook. A step that a GradScaler skips calls neither.
    """

    def __init__(
        self,
        optimizers: Iterable[torch.optim.Optimizer],
        parameters: Mapping[str, nn.Parameter],
        read: Callable[[Callable[[], Mapping[str, Tensor]], Tensor | None], None],
        evaluations: Evaluations,
    ) -> None:
        """`read` is given what looks gradients up, and what they are still multiplied by; `evaluations` is told of each
        of a closure's."""
        self.optimizers = tuple(optimizers)
        self.parameters = parameters
        self.read = read
        self.evaluations = evaluations
        self.names = {id(parameter): name for name, parameter in parameters.items()}
        self.strangers: set[int] = set()
        """Ids of parameters that an optimizer holds, and the model did not when the recorder was attached."""
        self.steps = dict.fromkeys(self.optimizers, 0)
        """Steps of each optimizer so far, those that their kernel skipped included."""
        self._stepping: set[torch.optim.Optimizer] = set()
        """Those that stepped since `forget`."""
        self.early = False
        """They stepped before any forward of the step: with the gradients of the step before."""
        self.closure = False
        """The step evaluates its loss itself, possibly several times."""
        self.scaler: Any = None
        """The GradScaler that called the optimizer, when one did."""
        self.learning_rate: Value | None = None
        self._stepped_surely = False
        self._found_inf: list[Tensor] = []
        """Of the optimizers that skip the step in their kernel, where it is above 0."""

    @property
    def stepped(self) -> bool:
        return bool(self._stepping)

    @property
    def in_part(self) -> bool:
        """Some of the optimizers stepped and others did not: the gradients of some parameters were not read."""
        return 0 < len(self._stepping) < len(self.optimizers)

    @property
    def skipped(self) -> float | Tensor:
        """1 when every optimizer's step was skipped; on the device where only the device knows."""
        if not self._found_inf or self._stepped_surely:
            return float(not self.stepped)
        return (torch.stack(self._found_inf).amin() > 0).float()

    def attach(self) -> list[RemovableHandle]:
        handles = []
        for optimizer in self.optimizers:
            handles.append(optimizer.register_step_pre_hook(self._before))
            handles.append(optimizer.register_step_post_hook(self._after))
        return handles

    def forget(self) -> None:
        """Start the next step."""
        self.closure = self._stepped_surely = self.early = False
        self._stepping, self._found_inf = set(), []

    def gradients(self, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
        """Return what this rank holds of the gradients, by name: of one optimizer, or of the whole model."""
        mine: Iterable[tuple[str | None, nn.Parameter]] = self.parameters.items()
        if optimizer is not None:
            used = (parameter for group in optimizer.param_groups for parameter in group["params"])
            mine = [(self.names.get(id(parameter)), parameter) for parameter in used]
            self.strangers.update(id(parameter) for name, parameter in mine if name is None)
        read = ((name, local_gradient(parameter)) for name, parameter in mine if name is not None)
        return {name: gradient for name, gradient in read if gradient is not None}

    def _before(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments with a closure that is listened to, if there is one."""
        if not self.stepped:
            rate = optimizer.param_groups[0]["lr"]
            # A tensor, as compiled optimizers have it, is changed in place by its scheduler, and may be on a device.
            self.learning_rate = rate.detach().clone() if isinstance(rate, Tensor) else float(rate)
        self.steps[optimizer] += 1
        self._stepping.add(optimizer)
        self.closure = _has_closure(args, kwargs)
        self.scaler = self.scaler or _calling_scaler()
        found_inf: Tensor | None = getattr(optimizer, "found_inf", None)
        if found_inf is None:
            self._stepped_surely = True
        else:
            self._found_inf.append(found_inf)
        if self.closure:
            self.evaluations.step_begins()
            listened = self.evaluations.listened
            return (
                tuple(
                    listened(each) if callable(each) and place else each for place, each in enumerate(args)
                ),
                {name: listened(each) if callable(each) else each for name, each in kwargs.items()},
            )
        # A fused optimizer under GradScaler unscales inside its kernel, so its gradients are still scaled.
        self.read(partial(self.gradients, optimizer), getattr(optimizer, "grad_scale", None))
        return None

    def _after(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _has_closure(args, kwargs):
            self.evaluations.step_ends()
            self.read(partial(self.gradients, optimizer), None)


def _calling_scaler() -> Any:
    """Return the GradScaler whose ``step`` called the optimizer, found among the callers; None without one."""
    frame = sys._getframe(1)
    for _ in range(_CALLERS):
        owner = frame.f_locals.get("self") if frame.f_code.co_name in ("step", "_maybe_opt_step") else None
        if hasattr(owner, "_scale") and hasattr(owner, "get_backoff_factor"):
            return owner
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def _has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    # Hooks of the optimizer class get the optimizer itself as the first positional argument.
    return any(callable(value) for value in (*args[1:], *kwargs.values()))
