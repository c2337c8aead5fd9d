"""What a sweep was measured on, as short digests: a store goes on only with the same model and the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from depthscope.causal.batch import Batch


def weights_digest(model: nn.Module) -> str:
    """Return a digest of all parameters and buffers by name."""
    held = [(name, value) for name, value in model.state_dict().items() if isinstance(value, Tensor)]
    return _digest(sorted(held, key=lambda entry: entry[0]))


def data_digest(batches: Sequence[Batch]) -> str:
    """Return a digest of every tensor of every batch."""
    parts: list[tuple[str, Tensor]] = []
    for number, batch in enumerate(batches):
        given = {**{str(place): value for place, value in enumerate(batch.args)}, **batch.kwargs}
        parts += [(f"{number}/{name}", value) for name, value in given.items() if isinstance(value, Tensor)]
        parts.append((f"{number}/targets", batch.targets))
    return _digest(parts)


def _digest(parts: Iterable[tuple[str, Tensor]]) -> str:
    total = hashlib.sha256()
    for name, value in parts:
        total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]
