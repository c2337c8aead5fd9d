"""A session's side of what passes between ranks; alone, nothing does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from depthscope.probes import SiteKind
from depthscope.recording.gathering import Gathering
from depthscope.recording.handover import Handover
from depthscope.recording.rank_messages import Receiver, receive, send
from depthscope.recording.rank_rows import MergedRow
from depthscope.recording.ranks import Ranks
from depthscope.recording.sending import Sending
from depthscope.recording.shards import Keys, everybodys_share, holders

CLOSING_SECONDS = 60.0
"""How long `close` waits for ranks that neither end their recording nor die."""
SILENT_SECONDS = 1.0
"""After so long it says for whom."""
LEAVING_SECONDS = 2.0
"""The same, where the script ends without it: an error on one rank must reach the launcher soon."""


class RankLink:
    """Rank 0 gathers, every other rank sends."""

    def __init__(
        self,
        ranks: Ranks | None,
        keys: Mapping[SiteKind, Keys],
        parameters: Sequence[str],
        name: str,
        absent: Callable[[int, str], None],
        kept: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        """`keys` are the shards that every rank holds; `absent` is told what of a rank is missing, and why; `kept`
        waits until that is on disk."""
        self.sending: Sending | None = None
        self._gathering: Gathering | None = None
        self._several = ranks is not None
        self._leaving = False
        self.held_by = dict.fromkeys(parameters, 1)
        """How many ranks hold the same part of each parameter; 1 where every rank holds all of them."""
        self.norm_share: dict[str, float] = {}
        """What goes with the norm of a rank's gradients, so that those of all ranks can be put together."""
        if ranks is None:
            return
        if keys["parameters"].any():
            self.held_by = dict(zip(parameters, holders(keys["parameters"], ranks.rank), strict=True))
            self.norm_share = everybodys_share(ranks.rank, ranks.world)
        if ranks.writes:
            self._gathering = Gathering(
                ranks.world, keys, Receiver(partial(receive, ranks.group), name), absent, kept, warn
            )
        else:
            self.sending = Sending(partial(send, ranks.group), warn)

    def gather(self, row: MergedRow) -> MergedRow | None:
        """Make this rank's row that of all ranks; None when it was given away."""
        if self.sending is not None:
            self.sending(row)
            return None
        return row if self._gathering is None else self._gathering(row)

    def part(self) -> None:
        """On the drain thread, behind the last row: part from the other ranks."""
        if self._leaving:
            # The process is about to end, which the others notice. A thread that still waits in gloo then would
            # abort it, and hide its exit code.
            return
        if self.sending is not None:
            self.sending.end()
        elif self._gathering is not None:
            self._gathering.until_end()

    def close(self, handover: Handover, *, leaving: bool) -> None:
        """Consume what was handed over. Other ranks are waited for, but not for long: less when `leaving`."""
        self._leaving = leaving
        if not self._several:
            handover.close()
            return
        patience = LEAVING_SECONDS if leaving else CLOSING_SECONDS
        in_silence = min(patience, SILENT_SECONDS)
        if handover.close(in_silence):
            return
        if not leaving and (others := self._waits_for()):
            _say(f"close() waits, {patience:g} s at most, for {others}")
        if handover.close(patience - in_silence):
            return
        if not leaving and (others := self._waits_for()):
            _say(f"close() goes on after {patience:g} s, still without {others}")
        if self._gathering is not None:
            self._gathering.finish_by(1.0)
            handover.close()

    def _waits_for(self) -> str:
        """Return the words for whom the drain thread waits at this moment; empty when it is busy itself."""
        if self._gathering is not None and self._gathering.waits_for is not None:
            return (
                f"rank {self._gathering.waits_for}, which has not closed its recorder: every rank calls "
                "recorder.close(), or leaves its with block"
            )
        if self.sending is not None and self.sending.waits:
            return (
                "rank 0, which takes this rank's rows as its own steps end and while it closes its recorder: every "
                "rank calls recorder.step() and recorder.close()"
            )
        return ""


def _say(text: str) -> None:
    print(f"depthscope: {text}", file=sys.stderr, flush=True)
