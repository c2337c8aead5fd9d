"""Whoever is alive when the script ends without closing is closed before the interpreter shuts down."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Protocol


class Leaving(Protocol):
    def leave(self) -> None: ...


def close_at_exit(owner: Leaving) -> None:
    """Close `owner` when the script ends without doing so, as long as it is alive.

    zarr can't write once the interpreter shuts down, so an ``atexit`` callback comes too late;
    ``threading._register_atexit`` runs before that, newest first, so this comes before the writer's own.
    """
    reference = weakref.ref(owner)

    def close() -> None:
        if (alive := reference()) is not None:
            alive.leave()

    register: Callable[[Callable[[], None]], object] = getattr(threading, "_register_atexit", atexit.register)
    register(close)
