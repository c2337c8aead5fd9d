"""Whether `step` is called as often as the loop steps: without it there is no row."""

from __future__ import annotations

from collections.abc import Sequence

_FACTOR, _AT_LEAST = 2, 10
"""Steps of an optimizer to each call, and beyond all calls, from which on the loop is said to forget some."""


class Neglect:
    """Counts the calls; says in words when they are too few."""

    def __init__(self) -> None:
        self.calls = 0

    def words(self, forwards: int, optimizer_steps: Sequence[int]) -> str:
        """Return what is wrong with the number of calls, or nothing.

        `forwards` are those of training since the last call, `optimizer_steps` those of each optimizer that stepped
        at all. The one that steps least counts: another may step several times for each row, as a critic's does.
        """
        steps = min(optimizer_steps, default=0)
        if not self.calls and (forwards or steps):
            seen = (
                _count(forwards, "training forward") if forwards else _count(steps, "step of the optimizer")
            )
            return f"{seen} seen and step() was never called: call recorder.step() after optimizer.step()"
        if steps >= _FACTOR * self.calls and steps - self.calls >= _AT_LEAST:
            return (
                f"{_count(steps, 'step of the optimizer')} seen and step() was called {self.calls} times, so a row "
                "holds what several steps gave: call recorder.step() after every optimizer.step()"
            )
        return ""


def _count(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what} was"
    first, _, rest = what.partition(" of ")
    return f"{number} {first}s of {rest} were" if rest else f"{number} {first}s were"
