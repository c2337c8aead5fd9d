"""What a forward is given and what it should have said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.causal.error import CausalError

LEFT_OUT = -100
"""A target that does not count, as in `torch.nn.functional.cross_entropy`."""


@dataclass(frozen=True)
class Batch:
    """Arguments of one forward, and the token that each position should predict, int64 [batch, time]."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    targets: Tensor

    @property
    def sequences(self) -> int:
        return int(self.targets.shape[0])

    def to(self, device: torch.device) -> Batch:
        """Return the batch with its tensors on a device."""

        def moved(value: Any) -> Any:
            return value.to(device) if isinstance(value, Tensor) else value

        args, kwargs = tuple(map(moved, self.args)), {name: moved(each) for name, each in self.kwargs.items()}
        return Batch(args, kwargs, self.targets.to(device))

    def repeated(self, times: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for `times` copies of the batch, one after the other."""
        return tuple(self._repeated(each, times) for each in self.args), {
            name: self._repeated(each, times) for name, each in self.kwargs.items()
        }

    def _repeated(self, value: Any, times: int) -> Any:
        batched = isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] == self.sequences
        return torch.cat([value] * times) if batched and times > 1 else value


def batch_of(given: Any) -> Batch:
    """Return a batch from what a loader gives.

    A tensor of token ids [batch, time + 1] is read by its first `time` tokens and should predict its last. A pair
    (inputs, targets) is taken as it is: inputs a tensor, or a mapping of keyword arguments; targets [batch, time],
    -100 where none counts. A mapping with ``labels`` is such a pair, its labels shifted by one as Hugging Face does.
    """
    if isinstance(given, Batch):
        return given
    if isinstance(given, Tensor) and given.ndim == 2 and given.shape[1] > 1:
        return Batch((given[:, :-1],), {}, given[:, 1:])
    if isinstance(given, Mapping) and "labels" in given:
        inputs = {name: value for name, value in given.items() if name != "labels"}
        shifted = torch.full_like(given["labels"], LEFT_OUT)
        shifted[:, :-1] = given["labels"][:, 1:]
        return Batch((), inputs, shifted)
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[1], Tensor):
        inputs, targets = given
        return (
            Batch((), dict(inputs), targets) if isinstance(inputs, Mapping) else Batch((inputs,), {}, targets)
        )
    raise CausalError(
        f"a batch is a {type(given).__name__}; expected token ids [batch, time + 1], a pair (inputs, targets), or a "
        "mapping with 'labels'"
    )


def batches_of(given: Iterable[Any], model: nn.Module | None = None) -> tuple[Batch, ...]:
    """Return all batches of an iterable, on the device of `model` where one is given.

    A tensor [batches, batch, time + 1] is an iterable as well.
    """
    batches = tuple(batch_of(each) for each in given)
    if model is not None and (first := next(model.parameters(), None)) is not None:
        batches = tuple(each.to(first.device) for each in batches)
    if not batches:
        raise CausalError("there is no batch to measure on; give one or more, several for an interval")
    return batches


def logits_of(output: Any) -> Tensor:
    """Return the logits [batch, time, vocabulary] of a model's output: itself, its ``logits`` or its first part."""
    found = getattr(output, "logits", output[0] if isinstance(output, tuple | list) else output)
    if not isinstance(found, Tensor) or found.ndim != 3:
        raise CausalError(
            f"the model gives a {type(output).__name__}; expected logits [batch, time, vocabulary], or an output with "
            "them as 'logits' or first"
        )
    return found


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p(target) in nats, float64 [batch, time]; NaN where no target counts."""
    flat = F.cross_entropy(
        logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, 1),
        targets.flatten(),
        ignore_index=LEFT_OUT,
        reduction="none",
    )
    return flat.double().view_as(targets).masked_fill(targets == LEFT_OUT, float("nan"))
