"""SIGTERM as an exit that unwinds, so that recorders and the page's process are closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143
"""Exit code of a program that SIGTERM ended, as shells expect it."""


@contextmanager
def terminate_as_exit() -> Iterator[None]:
    """Turn SIGTERM inside the block into ``SystemExit(143)``; outside the main thread, change nothing."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
