"""Optimizers that evaluate their loss themselves, several times a step: LBFGS, SAM. A row holds the last evaluation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Evaluations:
    """Listens to the closures of an optimizer step.

    The gradients that an optimizer leaves are those of its last evaluation, so what earlier ones of the same step
    showed goes. Forwards before the step, micro-batches of one evaluation: all of them stay.
    """

    def __init__(self, again: Callable[[], None], begins: Callable[[], None]) -> None:
        """`begins` is called where a step with a closure begins, `again` in front of every evaluation but the first."""
        self._again, self._begins = again, begins
        self._count = 0
        self.least = self.most = 0
        """Evaluations of a step, over all steps so far; 0 before the first."""

    def step_begins(self) -> None:
        self._begins()
        self._count = 0

    def listened(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Return a closure that does the same and is counted."""

        @functools.wraps(closure)
        def evaluate(*args: Any, **kwargs: Any) -> Any:
            self._count += 1
            if self._count > 1:
                self._again()
            return closure(*args, **kwargs)

        return evaluate

    def step_ends(self) -> None:
        self.most = max(self.most, self._count)
        self.least = min(self.least or self._count, self._count)

    @property
    def words(self) -> str:
        """What a row holds, where some step evaluated its loss more than once; else nothing."""
        if self.most < 2:
            return ""
        times = f"{self.most}" if self.least == self.most else f"{self.least} to {self.most}"
        return (
            f"the optimizer evaluated its closure {times} times a step: a row holds its step's last evaluation, forward "
            "and gradients alike, at the parameters where that was made"
        )
