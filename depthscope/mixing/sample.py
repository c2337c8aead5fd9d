"""The token sample that is replayed: the first positions of the first sequences of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from depthscope.mixing.error import MixingError

TOKENS = 128
"""Tokens in a sample: contributions are means over tokens, and a replay holds every read of the sample at once."""


def sample(
    args: Sequence[Any], kwargs: Mapping[str, Any], tokens: int = TOKENS
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[int, int]]:
    """Return arguments of a forward cut to about `tokens` tokens, and how many sequences and positions are left.

    The first tensor, ids [batch, time] or vectors [batch, time, d], says what batch and time are; whatever other tensor
    has axes of these lengths (masks, positions, labels) is cut with it. At least one sequence is left.

    Raises:
        MixingError: no argument is a tensor of token ids or vectors, or sequences are nested.
    """
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    if any(tensor.is_nested for tensor in tensors):
        raise MixingError("nested sequences are not replayed")
    first = next((t for t in tensors if t.ndim >= 2 + t.is_floating_point()), None)
    if first is None:
        raise MixingError(
            "no argument of the forward is a tensor of token ids [batch, time], whole numbers, or of vectors "
            f"[batch, time, d]; found {_found(args, kwargs)}"
        )
    batch, time = first.shape[:2]
    positions = min(time, tokens)
    sequences = min(batch, max(1, tokens // max(1, positions)))

    def cut(value: Any) -> Any:
        if isinstance(value, Tensor):
            for axis, length in enumerate(value.shape):
                if axis == 0 and length == batch:
                    value = value[:sequences]
                elif length == time and (value is not first or axis == 1):
                    value = value.narrow(axis, 0, positions)
            return value
        if type(value) in (tuple, list):
            return type(value)(cut(item) for item in value)
        return {key: cut(item) for key, item in value.items()} if type(value) is dict else value

    whole = first
    if (sequences, positions) == (batch, time):
        return tuple(args), dict(kwargs), (batch, time)
    cut_first = whole[:sequences, :positions]
    args = tuple(cut_first if value is whole else cut(value) for value in args)
    return (
        args,
        {key: cut_first if value is whole else cut(value) for key, value in kwargs.items()},
        (
            sequences,
            positions,
        ),
    )


def _found(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Say what each argument is: dtype and shape of a tensor, else its type."""
    named = {f"argument {place}": value for place, value in enumerate(args, start=1)} | dict(kwargs)
    told = (
        f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        if isinstance(value, Tensor)
        else type(value).__name__
        for value in named.values()
    )
    return ", ".join(f"{name}: {kind}" for name, kind in zip(named, told, strict=True)) or "no argument"
