"""Show a tensor that no module carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    Listener = Callable[[str, Tensor, int], Tensor]


class _Taps:
    """One persistent object: looking at its flag costs tens of nanoseconds when nothing records."""

    __slots__ = ("listener",)

    def __init__(self) -> None:
        self.listener: Listener | None = None


TAPS = _Taps()


def tap(name: str, tensor: Tensor, *, layer: int) -> Tensor:
    """Show `tensor` to whoever records under `name` at `layer` (from 1), and return it; use what is returned."""
    listener = TAPS.listener
    return tensor if listener is None else listener(name, tensor, layer)
