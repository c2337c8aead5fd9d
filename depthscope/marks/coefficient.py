"""Weights that depend on the state, computed in one place so that they can be recorded and replayed."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_tape: Tape | None = None


def coefficient(function: Callable[..., T], *arguments: Any) -> T:
    """Return ``function(*arguments)``, or the value a `Tape` replays for this call.

    With every state-dependent weight replayed, the residual network is exactly linear in its sources.
    Process-global and not thread-safe: one tape at a time.
    """
    if _tape is None:
        return function(*arguments)
    return _tape.take(function, *arguments)


class Tape:
    """Record the value of every `coefficient` in order; entered again, replay them.

    Calls nested inside a recorded function are part of its value and are not recorded themselves. A block that
    ends in an exception leaves nothing recorded. RuntimeError when a replay asks for more or fewer values
    than the tape holds: then it is not the forward that was recorded.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.replaying = False
        self._position = 0
        self._outer: Tape | None = None

    def take(self, function: Callable[..., T], *arguments: Any) -> T:
        global _tape
        if self.replaying:
            if self._position >= len(self.values):
                raise RuntimeError(
                    f"the tape holds {len(self.values)} coefficients and the replay asks for one more; "
                    "replay the same forward that was recorded"
                )
            value: T = self.values[self._position]
            self._position += 1
            return value
        _tape = None
        try:
            value = function(*arguments)
        finally:
            _tape = self
        self.values.append(value)
        return value

    def __enter__(self) -> Self:
        global _tape
        self._outer, _tape, self._position = _tape, self, 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _tape
        _tape = self._outer
        if kind is not None:
            if not self.replaying:
                self.values.clear()  # half a forward is no record
            return
        if self.replaying and self._position != len(self.values):
            raise RuntimeError(
                f"the replay asked for {self._position} of the {len(self.values)} coefficients on the tape; "
                "replay the same forward that was recorded"
            )
        self.replaying = True
