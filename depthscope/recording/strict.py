"""Strict mode: what is a warning for a user's training run is an error in every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = "DEPTHSCOPE_STRICT"


def strict() -> bool:
    """True under ``DEPTHSCOPE_STRICT=1``: recording errors raise instead of ending the recording with a warning."""
    return os.environ.get(_NAME, "") not in ("", "0")


@contextmanager
def strictly() -> Iterator[None]:
    """Run the body in strict mode."""
    before = os.environ.get(_NAME)
    os.environ[_NAME] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NAME]
        else:
            os.environ[_NAME] = before
