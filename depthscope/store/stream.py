"""A stream's rows on their way: accepted into memory and log by the caller, taken out by the flush thread."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depthscope.store.history import Gap
from depthscope.store.rounding import regions, round_row
from depthscope.store.rows import RowBuffer, Start
from depthscope.store.schema import Schema
from depthscope.store.segment import Segment, segment_path
from depthscope.store.specification import ArraySpec
from depthscope.store.trouble import Signals

logger = logging.getLogger("depthscope.store")
_WAITING_BYTES = 64 * 2**20
_MOST_ARRAYS = 1000
_LOOK_SECONDS = 0.02
"""How often `append` looks whether its log is still in its folder: that takes a tenth of the time of a row."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows to flush: whole buffers and the filled part of the last. After the commit, `segment` goes on."""

    buffers: tuple[RowBuffer, ...]
    rows: int
    segment: int


class StreamRows:
    """The writer's end of one stream. All methods are safe from any thread.

    Every state change is one assignment after its system call returned: Ctrl-C in between loses a row that
    was not accepted yet, and nothing else.
    """

    def __init__(
        self,
        name: str,
        arrays: list[ArraySpec],
        *,
        chunk_rows: int,
        tail: Path,
        new_array: Callable[[str, Any], ArraySpec],
        signals: Signals,
        gap: Callable[[Gap], None],
        start: Start | None = None,
    ) -> None:
        self.name, self.chunk_rows, self._tail = name, chunk_rows, tail
        self.arrays = arrays
        self._new_array, self._signals, self._gap_ended = new_array, signals, gap
        self._gap: Gap | None = None
        """Of rows that are being dropped."""
        self._lock = threading.Lock()
        start = start or Start.fresh(Schema.of(name, arrays), chunk_rows)
        self._begin(start, self.open_log(start))
        self._closed = False
        self.dropped = 0
        self._looked = 0.0
        self._told: set[str] = set()

    def _begin(self, start: Start, log: Segment) -> None:
        self._log, self._buffers = log, list(start.buffers)
        self._spare: RowBuffer | None = self._new_buffer()
        self._rounded = regions(start.buffers[-1].schema, self.arrays)
        self._oldest_segment = start.oldest_segment
        self.committed = start.committed
        self.last_step = start.last_step
        self.waiting_since = time.monotonic() if start.rows > start.committed else 0.0
        """Monotonic time of the oldest row that is in no commit; 0 when there is none."""

    @property
    def next_row(self) -> int:
        """The number of rows accepted so far."""
        return self._log.next_row

    @property
    def oldest_segment(self) -> int:
        return self._oldest_segment

    @property
    def segment(self) -> int:
        """Number of the log segment that rows go to."""
        return self._log.number

    def open_log(self, start: Start) -> Segment:
        """Create the log segment that a start begins with."""
        schema = start.buffers[-1].schema
        return Segment(segment_path(self._tail, self.name, start.segment), start.segment, schema, start.rows)

    def restart(self, start: Start, log: Segment) -> None:
        """Go on elsewhere: rows after `start` are forgotten here; arrays and commit are the caller's part."""
        with self._lock:
            old = self._log
            self._begin(start, log)
            old.close()

    @property
    def schema(self) -> Schema:
        return self._buffers[-1].schema

    def append(self, step: int, values: Mapping[str, Any], strict: bool) -> bool:
        """Accept a row into the log; see `RunWriter.append`."""
        with self._lock:
            if self._closed:
                return self._refuse("the run is closed", strict, RuntimeError)
            if self.last_step is not None and step < self.last_step:
                return self._refuse(
                    f"step {step} after step {self.last_step}: steps never go back", strict, ValueError
                )
            try:
                return self._append(step, values, strict)
            except OSError as error:
                self._signals.trouble.met(error)
                self._drop(step, self._signals.trouble.reason)
                return False

    def _append(self, step: int, values: Mapping[str, Any], strict: bool) -> bool:
        self._settle()
        row, buffer = self._log.next_row, self._buffers[-1]
        index = row - buffer.start
        if index == buffer.capacity:
            if sum(waiting.nbytes for waiting in self._buffers) > max(_WAITING_BYTES, 4 * buffer.nbytes):
                reason = self._signals.trouble.reason
                if not self._signals.trouble.present:
                    reason = "the disk is slower than the rows come"
                    self._tell(f"stream {self.name}: {reason}; rows are dropped until it catches up")
                self._drop(step, reason)
                return False
            buffer, index = self._next_buffer(row), 0
        if not values.keys() <= buffer.columns.keys():
            unknown = {name: value for name, value in values.items() if name not in buffer.columns}
            buffer = self._extend(unknown, buffer, index, strict)
        now = time.time()
        for problem in buffer.put(index, step, now, values):
            self._problem(f"{self.name}/{problem}", strict, ValueError)
        round_row(buffer.row(index), self._rounded)
        if abs(now - self._looked) > _LOOK_SECONDS:
            if self._log.deleted:
                self._roll()
            self._looked = now
        self._log.append(step, now, buffer.row(index), buffer.schema)
        self.last_step = step
        if self._gap is not None:
            self._end_gap()
            self._signals.full()
        if not self.waiting_since:
            self.waiting_since = time.monotonic()
        if index + 1 == buffer.capacity:
            self._signals.full()
        return True

    def take(self, *, everything: bool) -> Batch | None:
        """Return the rows that are in no commit, in whole chunks unless `everything`; None when there are none.

        The log goes on in a new segment wherever the batch ends, so that the old ones can be deleted.
        """
        with self._lock:
            self._settle()
            buffers, active = self._buffers, self._buffers[-1]
            next_row = self._log.next_row
            if everything or next_row == active.end:
                if next_row == self.committed:
                    return None
                if next_row > self._log.first_row:
                    self._roll()
                return Batch(buffers=tuple(buffers), rows=next_row, segment=self._log.number)
            if len(buffers) == 1:
                return None
            return Batch(buffers=tuple(buffers[:-1]), rows=active.start, segment=active.first_segment)

    def committed_to(self, batch: Batch) -> None:
        """Forget rows and delete log segments that the commit has made needless."""
        with self._lock:
            self.committed = batch.rows
            done = [b for b in self._buffers[:-1] if b.end <= batch.rows]
            self._buffers = self._buffers[len(done) :]
            self._spare = done[-1] if done else self._spare
            self.waiting_since = time.monotonic() if self._log.next_row > batch.rows else 0.0
            wanted = self._spare is None or self._spare.schema is not self.schema
        if wanted:
            # On this thread: memory from the system costs the one that takes it time, page by page.
            spare = self._new_buffer()
            with self._lock:
                self._spare = spare
        self.delete_segments(batch.segment)

    def delete_segments(self, before: int) -> None:
        while self._oldest_segment < before:
            segment_path(self._tail, self.name, self._oldest_segment).unlink(missing_ok=True)
            self._oldest_segment += 1

    def close(self) -> None:
        """Accept no more rows."""
        with self._lock:
            self._closed = True
            self._end_gap()

    def close_log(self, *, delete: bool) -> None:
        self._log.close()
        if delete:
            self.delete_segments(self._log.number + 1)

    def sync(self) -> None:
        """Make the log survive a power cut; does not hold up `append`."""
        with self._lock:
            handle = self._log.duplicate()
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def abandon(self) -> None:
        """In a forked child: close what was inherited."""
        self._log.close()

    def _settle(self) -> None:
        """After an interrupted `append`: its row counts if it is whole in the log."""
        if self._log.settle():
            buffer = self._buffers[-1]
            self.last_step = int(buffer.columns["step"][0][self._log.next_row - 1 - buffer.start])
            self.waiting_since = self.waiting_since or time.monotonic()

    def _next_buffer(self, row: int) -> RowBuffer:
        if row > self._log.first_row:
            try:
                self._roll()
            except OSError as error:
                # No new file can be made. The old log goes on as long as it takes rows.
                self._signals.trouble.met(error)
        spare, self._spare = self._spare, None
        if spare is None or spare.schema is not self.schema:
            spare = self._new_buffer()
        buffer = spare.again(start=row, first_segment=self._log.number)
        self._buffers = [*self._buffers, buffer]
        return buffer

    def _new_buffer(self) -> RowBuffer:
        return RowBuffer(self.schema, start=0, capacity=self.chunk_rows, first_segment=0)

    def _roll(self) -> None:
        old = self._log
        number = old.number + 1
        path = segment_path(self._tail, self.name, number)
        self._log = Segment(path, number, self._buffers[-1].schema, old.next_row)
        old.close()

    def _extend(self, values: Mapping[str, Any], buffer: RowBuffer, index: int, strict: bool) -> RowBuffer:
        added: list[ArraySpec] = []
        for name, value in values.items():
            try:
                if len(self.arrays) + len(added) >= _MOST_ARRAYS:
                    raise ValueError(
                        f"the stream has {_MOST_ARRAYS} arrays already; is a number part of the name?"
                    )
                added.append(self._new_array(name, value))
            except (TypeError, ValueError) as error:
                self._problem(f"{self.name}/{name}: {error}", strict, ValueError)
        if not added:
            return buffer
        arrays = [*self.arrays, *added]
        wider = buffer.under(Schema.of(self.name, arrays), index)
        self._rounded = regions(wider.schema, arrays)
        self._buffers = [*self._buffers[:-1], wider]
        self.arrays = arrays
        return wider

    def _refuse(self, reason: str, strict: bool, error: type[Exception]) -> bool:
        self._problem(f"stream {self.name}: {reason}", strict, error)
        self.dropped += 1
        return False

    def _drop(self, step: int, reason: str) -> None:
        self.dropped += 1
        gap = self._gap or Gap(self.name, self._log.next_row, step, step, 0, reason)
        self._gap = gap._replace(last_step=step, rows=gap.rows + 1)

    def _end_gap(self) -> None:
        gap, self._gap = self._gap, None
        if gap is not None:
            self._gap_ended(gap)

    def _problem(self, message: str, strict: bool, error: type[Exception]) -> None:
        if strict:
            raise error(message)
        self._tell(message)

    def _tell(self, message: str) -> None:
        key = message.split(":")[0]
        if key not in self._told:
            self._told.add(key)
            logger.warning("%s", message)
