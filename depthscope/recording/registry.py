"""Every recorder of this process: one a model and one a path, none in a forked child."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Protocol

from torch import nn


class Recording(Protocol):
    """What the registry needs to know of a recorder."""

    path: Path
    closed: bool

    def records(self, model: nn.Module) -> bool: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


_recorders: weakref.WeakSet[Recording] = weakref.WeakSet()


def enter(recorder: Recording) -> None:
    _recorders.add(recorder)


def displaced_by(model: nn.Module, path: Path) -> list[Recording]:
    """Return the open recorders that record this model or write to this path: a notebook cell run again."""
    return [
        other for other in _recorders if not other.closed and (other.path == path or other.records(model))
    ]


def _in_child() -> None:
    for recorder in list(_recorders):
        recorder.abandon()


os.register_at_fork(after_in_child=_in_child)
