"""What an intervention is: functions at ports of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from depthscope.causal.values import Values
from depthscope.marks import Port

Change: TypeAlias = Callable[[Tensor, Values], Tensor]
"""(what passes, what passed the ports that the edit needs) -> what passes on, of the same shape. A pure function."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of the tensor that passes `port`, [batch, ...]; `needs` are ports that it looks at, passed before."""

    port: Port
    change: Change
    needs: tuple[Port, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Skip:
    """The module at `path` is not run; it gives zeros of its input's shape."""

    path: str


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """What is done to one forward. Without edits and skips it is the forward as it was."""

    name: str
    """For people: ``5 attention without block 1``."""
    edits: tuple[Edit, ...] = ()
    skips: tuple[Skip, ...] = ()


NOTHING = Intervention(name="nothing")
