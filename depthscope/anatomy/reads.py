"""What each sublayer of a block reads, and where the stream between two of them can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from depthscope.anatomy.sample import close
from depthscope.anatomy.solve import Write
from depthscope.anatomy.trace import Call, Trace
from depthscope.marks import Port


@dataclass(frozen=True, kw_only=True)
class Read:
    """The read of one sublayer."""

    port: Port | None
    """Relative to the block; None where no module takes or gives this tensor."""
    writes_before: int | None
    """How many of the block's writes the stream holds that is read; None where that could not be told."""


def find_reads(trace: Trace, writes: Sequence[Write], entry: Port, tolerance: float) -> tuple[Read, ...]:
    """Return the read of every write of a block.

    A sublayer reads what the first module takes from which its write is computed: its norm, or itself where
    the norm is inside. In parallel blocks that is the block's input for all of them.
    """
    streams = [trace.entering, *(write.after for write in writes)]
    repeated = trace.repeated()
    reads = []
    for place, write in enumerate(writes):
        held, call = _root(trace, write, streams[: place + 1], tolerance)
        if held is None:
            held, call = _between(trace, writes, place, streams, tolerance)
        port = None
        if held == 0 and call is None:
            port = entry
        elif held is not None and call is not None:
            port = _usable(trace, call, streams[held], repeated, tolerance)
            if port is None and held == 0:
                port = entry
        if held is None and place == 0:
            held, port = 0, entry
        reads.append(Read(port=port, writes_before=held))
    return tuple(reads)


def find_states(
    trace: Trace, writes: Sequence[Write], reads: Sequence[Read], tolerance: float
) -> tuple[Port | None, ...]:
    """Return where the stream after each write but the last is seen: where the next one reads, if it does."""
    states: list[Port | None] = []
    repeated = trace.repeated()
    for place, write in enumerate(writes[:-1], start=1):
        read = reads[place]
        if read.writes_before == place and read.port is not None:
            states.append(read.port)
        else:
            states.append(_seen(trace.calls, write.after, repeated, tolerance))
    return tuple(states)


def origins(trace: Trace, call: Call, tolerance: float) -> list[Call]:
    """Return the sibling calls whose outputs lead to what `call` takes, directly or through one another."""
    earlier = [other for other in trace.children(call.parent) if other.exit < call.enter]
    found: list[Call] = []
    pending = [call]
    while pending:
        current = pending.pop()
        for other in earlier:
            taken = other.out is not None and any(
                close(value, other.out, tolerance) for _, value in current.inputs
            )
            if taken and other not in found and other.exit < current.enter:
                found.append(other)
                pending.append(other)
    return sorted(found, key=lambda other: other.enter)


def _root(
    trace: Trace, write: Write, streams: Sequence[Tensor], tolerance: float
) -> tuple[int | None, Call | None]:
    """Follow the write back to the call that takes the stream; return how many writes that holds, and it."""
    best: tuple[int | None, Call | None] = (None, None)
    for call in (*origins(trace, write.call, tolerance), write.call):
        held = _holds(call, streams, tolerance)
        if held is not None and (best[0] is None or held > best[0]):
            best = held, call
    return best


def _between(
    trace: Trace, writes: Sequence[Write], place: int, streams: Sequence[Tensor], tolerance: float
) -> tuple[int | None, Call | None]:
    """Look among the calls between the previous write and this one: something in between is no module."""
    after = writes[place - 1].call.exit if place else 0
    for wanted in (place, 0) if place else (0,):
        for call in trace.calls:
            if after < call.enter < writes[place].call.exit and _takes(call, streams[wanted], tolerance):
                return wanted, call
    return None, None


def _usable(
    trace: Trace, call: Call, stream: Tensor, repeated: frozenset[str], tolerance: float
) -> Port | None:
    """Return the outermost port at which the same tensor goes in, on a module that is called once."""
    while call.parent is not None and _takes(call.parent, stream, tolerance):
        call = call.parent
    path = _taken_at(call, stream, tolerance)
    if call.module not in repeated and path is not None:
        return Port(module=call.module, side="input", path=path)
    return _seen(trace.calls, stream, repeated, tolerance)


def _seen(calls: Sequence[Call], stream: Tensor, repeated: frozenset[str], tolerance: float) -> Port | None:
    """Return any port, on a module that is called once, where this tensor passes."""
    for call in calls:
        if call.module in repeated:
            continue
        path = _taken_at(call, stream, tolerance)
        if path is not None:
            return Port(module=call.module, side="input", path=path)
    for call in calls:
        if call.module not in repeated and call.out is not None and close(call.out, stream, tolerance):
            return Port(module=call.module, side="output", path=call.output_path)
    return None


def _holds(call: Call, streams: Sequence[Tensor], tolerance: float) -> int | None:
    for held in reversed(range(len(streams))):
        if _takes(call, streams[held], tolerance):
            return held
    return None


def _takes(call: Call, stream: Tensor, tolerance: float) -> bool:
    return _taken_at(call, stream, tolerance) is not None


def _taken_at(call: Call, stream: Tensor, tolerance: float) -> tuple[int | str, ...] | None:
    matches: Iterator[tuple[int | str, ...]] = (
        path for path, value in call.inputs if close(value, stream, tolerance)
    )
    return next(matches, None)
