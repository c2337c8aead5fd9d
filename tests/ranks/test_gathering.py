"""What rank 0 does with a row of which a rank's part does not come, without ranks."""

from __future__ import annotations

from collections.abc import Iterator

from depthscope.recording.gathering import Gathering
from depthscope.recording.rank_messages import Lost, Message
from tests.ranks.test_merging import row


class Comes:
    """One row of rank 1, and then nothing any more."""

    def __init__(self) -> None:
        self.messages: Iterator[Message] = iter([Message(row=row("sum", [1.0], [True]))])

    def __call__(self, rank: int) -> Message:
        try:
            return next(self.messages)
        except StopIteration:
            raise Lost("Connection closed by peer") from None


def test_the_note_of_a_lost_rank_is_kept_before_the_row_goes_on() -> None:
    order: list[str] = []
    disk = iter([False, True])

    def kept() -> bool:
        order.append("kept" if (done := next(disk)) else "not kept")
        return done

    warned: list[str] = []
    gather = Gathering(2, {}, Comes(), lambda rank, why: order.append(why[:8]), kept, warned.append)
    own = row("sum", [2.0], [True])
    for expected in (2, None, 1, 1):
        whole = gather(own)
        order.append(f"row of {whole.ranks}" if whole else "no row")
        assert (whole and whole.ranks) == expected
    assert order == ["row of 2", "was lost", "not kept", "no row", "kept", "row of 1", "row of 1"]
    assert warned[-1].startswith("rows are left out from 0 on until the disk takes the note")
    assert len(warned) == 2
