"""Trained models and the batches of each rank: the same in every process, so that one process can be compared."""

from __future__ import annotations

import copy
import functools

import torch
from torch import Tensor, nn

from tests.recording.loops import TIME, VOCABULARY, WIDTH, batches, build, optimizer_of, train

ROWS = 2
"""Sequences that one rank sees in a step, or in a micro-batch."""


def trained(design: str) -> nn.Module:
    """Return the model after twenty steps in one process; ``narrow`` has MLPs that three ranks can't all share."""
    return copy.deepcopy(_trained(design))


@functools.cache
def _trained(design: str) -> nn.Module:
    model = build("foreign" if design == "narrow" else design)
    if design == "narrow":
        for stage in model.tower:
            stage.beta = nn.Sequential(nn.Linear(WIDTH, 2), nn.GELU(), nn.Linear(2, WIDTH))
    train(model, 20, batches(), optimizer_of(model))
    model.zero_grad(set_to_none=True)
    return model


def batch_of(place: int) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets [ROWS, TIME] of the rank at `place`."""
    generator = torch.Generator().manual_seed(100 + place)
    ids = torch.randint(0, VOCABULARY, (ROWS, TIME + 1), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def micro_batch_of(rank: int, micro: int) -> tuple[Tensor, Tensor]:
    return batch_of(50 + 10 * rank + micro)


def mask_of(rank: int) -> Tensor:
    """Return which positions [ROWS, TIME] of a rank's batch count: as many on every rank, but others."""
    mask = torch.ones(ROWS, TIME, dtype=torch.bool)
    mask[rank % ROWS, TIME - 4 :] = False
    return mask


def padded(batch: tuple[Tensor, Tensor], mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs, and targets without the positions that do not count."""
    return batch[0], batch[1].masked_fill(~mask, -100)


def skip(model: nn.Module, place: int) -> None:
    """Leave out the stage at `place`, as layer drop does."""
    model.tower[place].forward = lambda x: x


def together(batches_of_ranks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the global batch."""
    inputs, targets = zip(*batches_of_ranks, strict=True)
    return torch.cat(inputs), torch.cat(targets)
