"""A disk that refuses: said once, while training goes on and everything is tried again."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger("depthscope.store")
_AGAIN_SECONDS = 600.0


class Trouble:
    """What is wrong with a run's disk. One warning when it begins, whichever thread and stream meets it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._present = False
        self._reason = ""
        self._said: dict[int | None, float] = {}

    def met(self, error: OSError) -> None:
        """Take note of a refusal. A disk at its limit refuses again and again: not every time is news."""
        why = os.strerror(error.errno) if error.errno else str(error)
        with self._lock:
            now = time.monotonic()
            news = not self._present and now - self._said.get(error.errno, -_AGAIN_SECONDS) >= _AGAIN_SECONDS
            self._present, self._reason = True, why
            if news:
                self._said[error.errno] = now
        if news:
            logger.warning(
                "%s cannot be written (%s). Training goes on; it is tried again, and rows that cannot be kept are "
                "dropped and counted",
                self._path,
                why,
            )

    def over(self) -> None:
        """Take note that the disk takes everything again."""
        self._present = False

    @property
    def present(self) -> bool:
        return self._present

    @property
    def reason(self) -> str:
        """What the disk said last."""
        return self._reason


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What a stream tells the rest of its run."""

    full: Callable[[], None]
    """A chunk of rows waits for its flush."""
    trouble: Trouble
