"""Strict mode: what is a warning for a user's training run is an error in every test."""

from __future__ import annotations

import os


def strict() -> bool:
    """True under ``DEPTHSCOPE_STRICT=1``: recording errors raise instead of ending the recording with a warning."""
    return os.environ.get("DEPTHSCOPE_STRICT", "") not in ("", "0")
