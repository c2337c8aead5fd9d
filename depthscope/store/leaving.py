"""Scripts that end without closing their runs, and processes that fork.

Writers close at exit through plain `atexit`: it runs after the main thread and all non-daemon threads are
done, so rows that such a thread still adds are kept. Writing chunks here needs no executor, which is what
would be gone by then (see `depthscope.store.chunk`).
"""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

LEAVING_SECONDS = 4.0
"""The longest that the end of a script is held up; what is not flushed by then is in the log."""


class Leaver(Protocol):
    """What has to be told when the process ends or forks."""

    def begin_close(self) -> None:
        """Start to close, without waiting."""
        ...

    def wait_closed(self, seconds: float) -> bool: ...

    def abandon(self) -> None:
        """Become inert in a forked child."""
        ...


_open: WeakSet[Leaver] = WeakSet()


def watch(writer: Leaver) -> None:
    _open.add(writer)


def unwatch(writer: Leaver) -> None:
    _open.discard(writer)


def _leave() -> None:
    # A second Ctrl-C, or anything else: the log has every accepted row, and the exit code is the script's.
    with suppress(BaseException):
        writers = list(_open)
        for writer in writers:
            writer.begin_close()
        deadline = time.monotonic() + LEAVING_SECONDS
        for writer in writers:
            writer.wait_closed(max(0.0, deadline - time.monotonic()))


def _forked() -> None:
    with suppress(BaseException):
        for writer in list(_open):
            writer.abandon()
        _open.clear()


atexit.register(_leave)
os.register_at_fork(after_in_child=_forked)
