"""On rank 0: one row of every rank becomes one row; a rank that stays away holds nobody up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from depthscope.probes import SiteKind
from depthscope.recording.rank_messages import Lost, Message, Receiver
from depthscope.recording.rank_rows import MergedRow, combine
from depthscope.recording.shards import Keys


class Gathering:
    """Called on the drain thread with this rank's row; returns that of all ranks."""

    def __init__(
        self,
        world: int,
        keys: Mapping[SiteKind, Keys],
        receive: Receiver,
        absent: Callable[[int, str], None],
        kept: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        """`absent` is told what of a rank is missing, and why; `warn` of what ought not to happen.

        `kept` waits until what `absent` was told is on disk, and tells whether it is.
        """
        self._keys, self._receive, self._warn = keys, receive, warn
        self._note_absent, self._kept = absent, kept
        self._to_keep = self._refusing = False
        """A note about a rank may not be on disk yet; a row was left out for that."""
        self._listening = dict.fromkeys(range(1, world))
        self.waits_for: int | None = None
        """The rank from which a message is to come."""
        self._early: dict[int, Message] = {}
        """Messages of ranks that have gone on to a later row: they dropped one."""
        self._dropped: dict[int, list[int]] = {}

    def __call__(self, own: MergedRow) -> MergedRow | None:
        """Return None for a row that must not be written: a part is missing, and the disk takes no note of it."""
        rows = {0: own}
        for rank in list(self._listening):
            if (row := self._row_of(rank, own.step)) is not None:
                rows[rank] = row
        # The note first: whatever ends this process next, nobody reads the row as if it were whole.
        if self._to_keep and not self._kept():
            self._refuse(own.step)
            return None
        self._to_keep = False
        return combine(rows, self._keys)

    def until_end(self) -> None:
        """Take what the others still send, so that none waits for us, until each has ended its recording."""
        self._early.clear()
        for rank in self._listening:
            with suppress(Lost):  # no row lacks anything of it
                while not self._message(rank).ends:
                    pass
        self._listening.clear()
        self._receive.close()

    def finish_by(self, seconds: float) -> None:
        """The recording is closed: wait for other ranks for `seconds` at most."""
        self._receive.finish_by(seconds)

    def _row_of(self, rank: int, step: int) -> MergedRow | None:
        while (message := self._early.pop(rank, None) or self._next(rank, f"row {step}")) is not None:
            if message.row is None:
                reason = f": {message.reason}" if message.reason else ""
                self._leave(rank, f"ended its recording before row {step}{reason}")
                return None
            if message.row.step == step:
                return message.row
            if message.row.step > step:
                self._early[rank] = message
                dropped = self._dropped.setdefault(rank, [])
                dropped.append(step)
                self._absent(rank, f"dropped {len(dropped)} rows, which lack its numbers, row {step} last")
                return None
            # An older row, which was dropped here.
        return None

    def _next(self, rank: int, what: str) -> Message | None:
        try:
            return self._message(rank)
        except Lost as lost:
            self._leave(rank, f"was lost before {what} came: {lost}")
            self._warn(f"rank {rank} was lost before {what} came, and the rows go on without it: {lost}")
            return None

    def _message(self, rank: int) -> Message:
        self.waits_for = rank
        try:
            return self._receive(rank)
        finally:
            self.waits_for = None

    def _leave(self, rank: int, reason: str) -> None:
        del self._listening[rank]
        self._absent(rank, f"{reason}; rows from there on hold the other ranks' numbers")

    def _refuse(self, step: int) -> None:
        if not self._refusing:
            self._warn(
                f"rows are left out from {step} on until the disk takes the note that they lack a rank's numbers"
            )
        self._refusing = True

    def _absent(self, rank: int, reason: str) -> None:
        self._note_absent(rank, reason)
        self._to_keep = True
