"""What a forward is given and what it should have said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.causal.error import BatchError, CausalError

LEFT_OUT = -100
"""A target that does not count, as in `torch.nn.functional.cross_entropy`."""
EXPECTED = (
    "a list of batches: token ids [batch, time + 1] with time >= 1, pairs (inputs, targets [batch, time]), or mappings "
    "with 'labels' [batch, time]; token ids, targets and labels int64 or int32"
)
WHOLE = (torch.int64, torch.int32)
"""Types of token ids."""


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

    Raises:
        BatchError: it is none of these, or no target counts.
    """
    batch = given if isinstance(given, Batch) else _read(given)
    if not bool((batch.targets != LEFT_OUT).any()):
        raise BatchError(
            f"no target of a batch counts: all of {described(batch.targets)} are {LEFT_OUT}; expected one or more "
            "tokens to predict in each batch"
        )
    return batch


def _read(given: Any) -> Batch:
    if isinstance(given, Tensor) and _are_tokens(given) and given.shape[1] > 1:
        return Batch((given[:, :-1],), {}, given[:, 1:])
    if isinstance(given, Mapping) and _are_tokens(given.get("labels")):
        inputs = {name: value for name, value in given.items() if name != "labels"}
        shifted = torch.full_like(given["labels"], LEFT_OUT)
        shifted[:, :-1] = given["labels"][:, 1:]
        return Batch((), inputs, shifted)
    if isinstance(given, tuple | list) and len(given) == 2 and _are_tokens(given[1]):
        inputs, targets = given
        if isinstance(inputs, Mapping):
            return Batch((), dict(inputs), targets)
        if isinstance(inputs, Tensor):
            return Batch((inputs,), {}, targets)
    raise BatchError(f"a batch is {described(given)}; expected {EXPECTED}")


def _are_tokens(given: Any) -> bool:
    return isinstance(given, Tensor) and given.ndim == 2 and given.dtype in WHOLE


def described(given: Any) -> str:
    """Return what came in words: its type, and the shape and type of a tensor."""
    if isinstance(given, Tensor):
        return f"a tensor of shape {list(given.shape)}, {str(given.dtype).removeprefix('torch.')}"
    if isinstance(given, Mapping):
        return "a mapping of " + (
            ", ".join(f"{name!r}: {described(each)}" for name, each in given.items()) or "nothing"
        )
    if isinstance(given, tuple | list) and len(given) <= 2:
        return f"a {type(given).__name__} of " + (" and ".join(map(described, given)) or "nothing")
    return "None" if given is None else f"a {type(given).__name__}"


def batches_of(given: Iterable[Any], model: nn.Module | None = None) -> tuple[Batch, ...]:
    """Return all batches of an iterable, on the device of `model` where one is given.

    A tensor [batches, batch, time + 1] is an iterable as well.

    Raises:
        BatchError: it is no iterable of batches, or holds none.
    """
    batches = tuple(batch_of(each) for each in iterate(given))
    if model is not None and (first := next(model.parameters(), None)) is not None:
        batches = tuple(each.to(first.device) for each in batches)
    if not batches:
        raise BatchError("there is no batch to measure on; give one or more, several for an interval")
    return batches


def iterate(given: Any) -> Iterator[Any]:
    """Return an iterator over what should be several batches; BatchError where it is something else."""
    one = isinstance(given, Tensor) and given.ndim < 3
    try:
        if not one and not isinstance(given, Mapping | str | bytes):
            return iter(given)
    except TypeError:
        pass
    raise BatchError(f"the batches are {described(given)}; expected {EXPECTED}")


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
    """Return -log p(target) in nats, float64 [batch, time]; NaN where no target counts.

    Raises:
        BatchError: a target is no token of the vocabulary.
    """
    if logits.shape[:2] != targets.shape:
        raise BatchError(
            f"the targets are {described(targets)}; expected {list(logits.shape[:2])}, as the logits"
        )
    counted = targets[targets != LEFT_OUT]
    if counted.numel():
        refuse_beyond("target", counted, logits.shape[-1])
    flat = F.cross_entropy(
        logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, 1),
        targets.flatten().long(),
        ignore_index=LEFT_OUT,
        reduction="none",
    )
    return flat.double().view_as(targets).masked_fill(targets == LEFT_OUT, float("nan"))


def refuse_beyond(what: str, ids: Tensor, vocabulary: int) -> None:
    """Raise BatchError where an id, called `what`, is none of 0 to `vocabulary` - 1."""
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or most >= vocabulary:
        wrong = least if least < 0 else most
        raise BatchError(
            f"a {what} is {wrong}; expected token ids from 0 to {vocabulary - 1}, and {LEFT_OUT} where none counts"
        )
