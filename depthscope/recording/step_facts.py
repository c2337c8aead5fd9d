"""What a step knows of itself beside its moments: scale, norms, whether it was skipped, times, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from depthscope.recording.clock import Clock
from depthscope.recording.notices import NO_OPTIMIZER_STEP, Notices
from depthscope.recording.optimizers import OptimizerReader
from depthscope.recording.rank_link import RankLink
from depthscope.recording.shards import contribution, local, norm_share
from depthscope.recording.values import Value


class Scaler(Protocol):
    """What is needed of ``torch.amp.GradScaler``."""

    def is_enabled(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Handed:
    """What the loop hands in as a step ends; see `Recorder.step`."""

    loss: Value | None
    step: int | None
    tokens: int | None
    grad_norm: Value | None
    max_norm: float | None
    metrics: Mapping[str, Value] | None


class StepFacts:
    """Collects facts from a step's first forward to its end, and starts anew with the next."""

    def __init__(
        self, optimizers: OptimizerReader, scaler: Scaler | None, clock: Clock, notices: Notices
    ) -> None:
        self._optimizers, self._clock, self._notices = optimizers, clock, notices
        self.scaler = scaler
        """Given, or found where it steps the optimizer."""
        self._loss_scale: Tensor | float | None = None
        self._scale_before = _scale_of(scaler)
        """As the step began: compiled code does not say when a forward ends."""
        self._norm_before: Value | None = None
        self._norm_facts: Mapping[str, float] = {}
        self.recording_seconds: float | None = None
        """Host time spent in the step before."""

    def forget(self) -> None:
        """Start the next step."""
        self._norm_before = self._loss_scale = None
        self._scale_before = _scale_of(self.scaler)
        self._norm_facts = {}

    def note_scale(self) -> None:
        """Note the loss scale. At a forward's end: after a skipped step update() has halved it before the row is made."""
        self._loss_scale = _scale_of(self.scaler)

    def note_norm(self, link: RankLink) -> None:
        """Note the global norm of the gradients as they stand."""
        if gradients := self._optimizers.gradients():
            self._norm_before = contribution(gradients, link.held_by)
            self._norm_facts = link.norm_share

    def collect(
        self, handed: Handed, *, started: float, loss_tokens: int | Tensor
    ) -> dict[str, Value | None]:
        """Return the facts of the step that ends, which began to be recorded at `started`; None: not known."""
        reader = self._optimizers
        if self.scaler is None and reader.scaler is not None:
            self.scaler = reader.scaler
            self._loss_scale = _scale_of(reader.scaler)
        if (norm := handed.grad_norm) is not None:
            self._norm_before, self._norm_facts = norm, norm_share(norm)
            if isinstance(norm, Tensor):
                self._norm_before = local(norm)
        known = self.scaler is not None and reader.optimizers and not reader.early
        on_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return {
            "loss": handed.loss,
            "loss_scale": self._scale_before if self._loss_scale is None else self._loss_scale,
            "learning_rate": None if reader.early else reader.learning_rate,
            "step_seconds": None if self._clock.last_time is None else started - self._clock.last_time,
            "recording_seconds": self.recording_seconds,
            "tokens": self._clock.tokens_seen,
            "loss_tokens": loss_tokens,
            "skipped": reader.skipped if known else None,
            "withhold_gradients": 1.0 if self._withheld() else None,
            "peak_memory": _peak_memory() if on_cuda else None,
            "grad_norm_before_clip": self._norm_before,
            "max_norm": handed.max_norm,
            **self._norm_facts,
        }

    def _withheld(self) -> bool:
        """Whether a GradScaler that nobody told us of may have skipped the step: the gradients may be scaled."""
        reader = self._optimizers
        withheld = (
            bool(reader.optimizers)
            and not reader.stepped
            and self.scaler is None
            and self._clock.forwards > 0
        )
        if withheld:
            self._notices.say(NO_OPTIMIZER_STEP)
        return withheld


def _peak_memory() -> float:
    # What torch.cuda.max_memory_allocated reads, without the hundred other numbers that it lays out on the way.
    allocated = torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]
    return float(allocated["all"]["peak"])


def _scale_of(scaler: Scaler | None) -> Tensor | float | None:
    """Return a GradScaler's scale without waiting for its device; None where no scaler is at work."""
    if scaler is None or not scaler.is_enabled():
        return None
    scale: Tensor | None = getattr(scaler, "_scale", None)
    return float(getattr(scaler, "_init_scale", 1.0)) if scale is None else scale.clone()
