"""What happened to a run beside its rows: attempts that ended, rows that could not be kept."""

from __future__ import annotations

from typing import NamedTuple


class Rewind(NamedTuple):
    """How an attempt ended: a resume went back to `step`, the first that the next attempt has again."""

    epoch: int
    """Of the attempt that begins here; the first attempt's is 0."""
    row: int
    """Rows of the first stream that both attempts share."""
    step: int


class Gap(NamedTuple):
    """Rows that could not be kept: the disk was full, not writable, or slower than the rows came."""

    stream: str
    row: int
    """The number of the row before which they are missing."""
    first_step: int
    last_step: int
    rows: int
    reason: str = ""
    """Why the first of them was; empty in a run of before it was noted."""
