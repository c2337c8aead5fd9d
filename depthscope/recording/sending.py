"""On every rank but rank 0: rows go to rank 0, which writes the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from depthscope.recording.rank_messages import Lost, Message
from depthscope.recording.rank_rows import MergedRow


class Sending:
    """Plays the writer's part, with nothing to write, and hands each row to rank 0 on the drain thread."""

    def __init__(self, send: Callable[[Message], None], warn: Callable[[str], None]) -> None:
        self._send, self._warn = send, warn
        self._ended = False
        self.waits = False
        """A message is on its way, and rank 0 has not taken it."""
        self.dropped = 0
        self.accepted_step: int | None = None
        """Newest step that rank 0 has taken."""

    def __call__(self, row: MergedRow) -> None:
        """Hand over a row: this rank's part of the merging."""
        if self._tell(Message(row=row)):
            self.accepted_step = row.step
        else:
            self.dropped += 1

    def end(self, reason: str = "") -> None:
        """Tell rank 0 that no more rows come, once; `reason` when training goes on without them."""
        if not self._ended:
            self._tell(Message(reason=reason))
            self._ended = True

    def _tell(self, message: Message) -> bool:
        if self._ended:
            return False
        self.waits = True
        try:
            self._send(message)
        except Lost as lost:
            self._ended = True
            if not message.ends:
                self._warn(f"rank 0 takes no more rows of this rank, which are left out of the run: {lost}")
            return False
        finally:
            self.waits = False
        return True

    # --- the writer's part: rank 0 does it --------------------------------------------------------------

    def append(self, stream: str, step: int, values: Mapping[str, Any]) -> bool:
        return True

    def annotate(self, key: str, value: Any) -> None: ...

    def keep_notes(self) -> bool:
        return True

    def flush(self, stream: str | None = None) -> None: ...

    def close(self) -> None: ...
