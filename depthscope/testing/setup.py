"""What a user hands over to have a training step of theirs verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

Step = Callable[[Any, Any, Any], object]
"""``step(model, optimizer, recorder)``: one whole training step, as the loop does it, ``recorder.step`` included."""


class SetupError(ValueError):
    """What was handed over is not a setup, or does not do what one does."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One training step: compile, autocast, accumulation, clipping, scaler and ranks as in the loop itself.

    `step` is called twice, first with `model`, then with a copy of it in double, and must take the same batch both
    times: draw it in the factory. It calls what it is given: no model or optimizer of its own.
    """

    model: nn.Module
    """What the loop calls: wrapped, sharded, compiled, but not called yet."""
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer]
    step: Step
    scaler: Any = None
    """The GradScaler that `step` uses; it is switched off for the copy."""
    reference: nn.Module | None = None
    """Where the model can't be copied (``fully_shard``): the same module, not sharded; it gets the weights."""
    example: Any = None
    """Arguments of the forward, where the depth axis can't be found on the first one (compiled as a whole)."""


def setup_of(made: Any) -> Setup:
    """Return the setup that a factory returned: a `Setup`, ``(model, optimizer, step)``, or a mapping or object with
    these names. SetupError says what is wrong with it."""
    if isinstance(made, Setup):
        given = {field.name: getattr(made, field.name) for field in fields(Setup)}
    elif isinstance(made, tuple | list):
        if len(made) != 3:
            raise SetupError(f"the factory returned {len(made)} values; expected (model, optimizer, step)")
        given = dict(zip(("model", "optimizer", "step"), made, strict=True))
    else:
        names = [field.name for field in fields(Setup)]
        held = made if isinstance(made, Mapping) else {name: getattr(made, name, None) for name in names}
        given = {name: held[name] for name in names if held.get(name) is not None}
        if isinstance(made, Mapping) and (unknown := set(made) - set(names)):
            raise SetupError(f"the factory returned {min(map(str, unknown))!r}; expected {', '.join(names)}")
    for name in ("model", "optimizer", "step"):
        if given.get(name) is None:
            raise SetupError(
                f"the factory returned a {type(made).__name__} without {name!r}; expected (model, optimizer, step), "
                "or a mapping or object with these names"
            )
    model, optimizer, step = given["model"], given["optimizer"], given["step"]
    if not isinstance(model, nn.Module):
        raise SetupError(
            f"model is a {type(model).__name__}; expected the torch.nn.Module that the loop calls"
        )
    several = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
    if not several or not all(isinstance(each, torch.optim.Optimizer) for each in several):
        raise SetupError(
            f"optimizer is a {type(optimizer).__name__}; expected a torch.optim.Optimizer, or several"
        )
    if not callable(step):
        raise SetupError(
            f"step is a {type(step).__name__}; expected a function step(model, optimizer, recorder)"
        )
    return Setup(**given)
