"""The recorder's clock: which optimizer step is under way, and how many tokens came before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


class Clock:
    """Counts optimizer steps as `Recorder.step` ends them."""

    def __init__(self, start_step: int) -> None:
        self.next = start_step
        """Number of the step under way: steps completed before it."""
        self.tokens_seen: int | Tensor = 0
        """On its device where a mask tells which positions count."""
        self.positions: int | Tensor = 0
        """Token positions of the step's training forwards so far that count."""
        self.called_with = 0
        """Those that the model was called with in them."""
        self.forwards = 0
        self.any_forward = False
        """In this step or one before."""
        self._marked: tuple[int | Tensor, int, int] = (0, 0, 0)
        self.last_time: float | None = None
        self._stride = 1
        self._started = False

    def saw_forward(self, positions: int | Tensor, called_with: int) -> None:
        self.positions = self.positions + positions
        self.called_with += called_with
        self.forwards += 1
        self.any_forward = True

    def mark(self) -> None:
        """Remember the forwards so far."""
        self._marked = self.positions, self.called_with, self.forwards

    def back(self) -> None:
        """Forget the forwards since `mark`."""
        self.positions, self.called_with, self.forwards = self._marked

    def label(self, given: int | None) -> int:
        """Return the number of the step that ends now; ValueError for one that goes back."""
        label = self.next if given is None else int(given)
        if self._started and label < self.next - self._stride + 1:
            raise ValueError(f"step={label}: step {self.next - self._stride} came before it; steps only grow")
        return label

    def advance(self, label: int, *, given: bool, tokens: int | Tensor, now: float) -> None:
        """Begin the next step. Steps numbered by the user are expected to go on at their last distance."""
        self._stride = max(1, label - self.next + self._stride) if given and self._started else 1
        self.next = label + self._stride
        self.tokens_seen = self.tokens_seen + tokens
        self.positions = self.called_with = self.forwards = 0
        self.last_time = now
        self._started = True

    def state(self) -> dict[str, Any]:
        return {"next_step": self.next, "tokens_seen": int(self.tokens_seen)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.next, self.tokens_seen = int(state["next_step"]), int(state["tokens_seen"])
        self.positions = self.called_with = self.forwards = 0
        self.last_time = None
        self._stride, self._started = 1, False
