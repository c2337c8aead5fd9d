"""Why a model's mixing can't be told."""

from __future__ import annotations


class MixingError(RuntimeError):
    """The residual network of a model cannot be replayed, or the replay does not add up; the message says why."""
