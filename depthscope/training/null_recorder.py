"""What a training loop needs of a recorder, and a recorder that keeps nothing."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from torch import Tensor


class TrainingRecorder(Protocol):
    """The calls that the trainer makes; `depthscope.recording.Recorder` answers them."""

    def step(
        self,
        loss: Tensor | float | None = None,
        *,
        tokens: int | None = None,
        grad_norm: Tensor | float | None = None,
        max_norm: float | None = None,
    ) -> None: ...

    def evaluation(self, **losses: float) -> None: ...

    def close(self) -> None: ...


class NullRecorder:
    """Stands where a recorder would and does nothing, so that the loop is the same with and without one."""

    def step(
        self,
        loss: Tensor | float | None = None,
        *,
        tokens: int | None = None,
        grad_norm: Tensor | float | None = None,
        max_norm: float | None = None,
    ) -> None:
        """Keep nothing."""

    def evaluation(self, **losses: float) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Close nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
