"""How far a demo is: bars in a terminal, lines in a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

_REFRESH = 0.25  # seconds; reading a loss makes a CUDA device wait


class Bars:
    """One bar a design with its losses, and one for all with the time left and the page's address."""

    def __init__(self, console: Console, names: Sequence[str], steps: int, address: str | None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[losses]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._steps = steps
        self._tasks = {name: self._progress.add_task(name, total=steps, losses="") for name in names}
        self._all = self._progress.add_task("all", total=steps * len(names), losses=address or "")
        self._loss = dict.fromkeys(names, "")
        self._validation = dict.fromkeys(names, "")
        self._read = dict.fromkeys(names, 0.0)

    def stepped(self, name: str, completed: int, loss: Tensor) -> None:
        now = time.monotonic()
        if now - self._read[name] > _REFRESH or completed == self._steps:
            self._read[name] = now
            self._loss[name] = f"loss {loss.item():.3f}"
        self._progress.update(
            self._tasks[name], advance=1, losses=f"{self._loss[name]}{self._validation[name]}"
        )
        self._progress.update(self._all, advance=1)

    def validated(self, name: str, loss: float) -> None:
        self._validation[name] = f"  validation {loss:.3f}"

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class Lines:
    """A line every tenth of the way, where the output is no terminal."""

    def __init__(self, console: Console, names: Sequence[str], steps: int) -> None:
        self._console = console
        self._last = names[-1]
        self._steps = steps
        self._every = max(1, steps // 10)
        self._losses: dict[str, float] = {}
        self._started = time.monotonic()

    def stepped(self, name: str, completed: int, loss: Tensor) -> None:
        if completed % self._every and completed != self._steps:
            return
        self._losses[name] = loss.item()
        if name != self._last:
            return
        losses = "  ".join(f"{design} {value:.3f}" for design, value in self._losses.items())
        left = (time.monotonic() - self._started) / completed * (self._steps - completed)
        self._console.print(
            f"step {completed}/{self._steps}  {losses}  {left:.0f} s left", highlight=False, soft_wrap=True
        )

    def validated(self, name: str, loss: float) -> None:
        """A line has no room for it; the summary at the end has."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def progress(console: Console, names: Sequence[str], steps: int, address: str | None = None) -> Bars | Lines:
    """Return bars where the console is a terminal, lines elsewhere."""
    return Bars(console, names, steps, address) if console.is_terminal else Lines(console, names, steps)
