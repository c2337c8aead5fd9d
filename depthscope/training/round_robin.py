"""Several models trained in turns, so that all grow together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from depthscope.training.trainer import Trainer


class Watcher(Protocol):
    """Told about every step and validation of every model."""

    def stepped(self, name: str, completed: int, loss: Tensor) -> None: ...

    def validated(self, name: str, loss: float) -> None: ...


def train_round_robin(trainers: Mapping[str, Trainer], watcher: Watcher) -> None:
    """Give each trainer one step in turn until all are done, with validations where they are due.

    Trainers share nothing but the text, so the order of turns changes no number.
    """
    for name, trainer in trainers.items():
        watcher.validated(name, trainer.validate())
    while unfinished := {n: t for n, t in trainers.items() if t.completed < t.options.steps}:
        for name, trainer in unfinished.items():
            loss = trainer.step()
            watcher.stepped(name, trainer.completed, loss)
            if trainer.validation_is_due():
                watcher.validated(name, trainer.validate())
