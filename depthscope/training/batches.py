"""Which windows of the text a step sees."""

from __future__ import annotations

import torch
from torch import Tensor


def training_batch(text: Tensor, step: int, *, seed: int, batch: int, context: int) -> Tensor:
    """Return token ids [batch, context + 1] from random places of `text` (uint8 [n]).

    The places depend on seed and step only: every design sees the same data in the same order, and a run that
    resumes at a step sees what it would have seen.
    """
    check_length(text, context)
    # A generator's first draws barely differ between neighbouring seeds on some devices; mix first.
    generator = torch.Generator().manual_seed((seed * 1_000_003 + step) * 2_654_435_761 % 2**63)
    starts = torch.randint(len(text) - context, (batch,), generator=generator)
    return windows(text, starts, context)


def validation_batches(text: Tensor, *, count: int, batch: int, context: int) -> list[Tensor]:
    """Return `count` batches [batch, context + 1] of windows spread evenly over `text`; always the same."""
    check_length(text, context)
    starts = torch.linspace(0, len(text) - context - 1, count * batch, dtype=torch.float64).long()
    return [windows(text, part, context) for part in starts.chunk(count)]


def windows(text: Tensor, starts: Tensor, context: int) -> Tensor:
    """Return the context + 1 bytes from each start as ids, int64 [len(starts), context + 1]."""
    return text[starts.unsqueeze(-1) + torch.arange(context + 1)].long()


def check_length(text: Tensor, context: int) -> None:
    if len(text) <= context:
        raise ValueError(f"a text of {len(text)} bytes holds no window of {context + 1}; shorten the context")
