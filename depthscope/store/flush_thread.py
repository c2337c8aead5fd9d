"""The flush thread of a run: it alone touches the arrays and commits, so training never waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from depthscope.store.commit import Committer
from depthscope.store.flush import Flusher
from depthscope.store.lock import HEARTBEAT_SECONDS, WriterLock
from depthscope.store.stream import StreamRows
from depthscope.store.trouble import Trouble

logger = logging.getLogger("depthscope.store")
_SYNC_SECONDS = 30.0
_NOTE_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_FIRST_SECONDS = 1.0


class Request:
    """Someone waits for a flush of one stream, or of all, and for an `action` behind it."""

    def __init__(self, stream: str | None, action: Callable[[], object] | None = None) -> None:
        self.stream, self.action = stream, action
        self.done = threading.Event()
        self.succeeded = False
        self.error: Exception | None = None

    def act(self) -> None:
        """Do the action; what it raises belongs to the one who waits."""
        try:
            if self.action is not None:
                self.action()
        except (OSError, ValueError, LookupError, TypeError) as error:
            self.error = error

    def finish(self, succeeded: bool) -> None:
        self.succeeded = succeeded
        self.done.set()


class FlushThread:
    """Flushes when a chunk is full, when rows have waited, when asked, and at the end."""

    def __init__(
        self,
        path: Path,
        lock: WriterLock,
        committer: Committer,
        flusher: Flusher,
        streams: Mapping[str, StreamRows],
        *,
        wake: threading.Event,
        trouble: Trouble,
        flush_seconds: float,
        fsync: bool,
        ended: Callable[[], None],
    ) -> None:
        self._path, self._lock, self._committer, self._flusher = path, lock, committer, flusher
        self._streams, self._wake, self._ended = streams, wake, ended
        self._flush_seconds, self._fsync = flush_seconds, fsync
        self._requests: list[Request] = []
        self._request_lock = threading.Lock()
        self._trouble = trouble
        self._started = time.monotonic()
        self.closing = False
        self.finished = threading.Event()
        threading.Thread(target=self._run, name="depthscope-flush", daemon=True).start()

    def request(self, stream: str | None, action: Callable[[], object] | None = None) -> Request:
        """Ask for a flush of all accepted rows of a stream, or of all streams, and then for `action`."""
        request = Request(stream, action)
        with self._request_lock:
            self._requests.append(request)
        self._wake.set()
        return request

    def begin_close(self) -> None:
        self.closing = True
        self._wake.set()

    def _run(self) -> None:
        try:
            beat, sync, notes, rows = map(_Every, (HEARTBEAT_SECONDS, _SYNC_SECONDS, _NOTE_SECONDS, 0.0))
            beat.again_in(HEARTBEAT_SECONDS)  # taking the lock was the first
            while True:
                self._wake.wait(self._pause())
                self._wake.clear()
                with self._request_lock:
                    requests, self._requests = self._requests, []
                closing = self.closing
                if self._lock.lost():
                    self._give_up(requests)
                    return
                if closing:
                    for stream in self._streams.values():
                        stream.close()
                if closing or requests or rows.due():
                    wanted = {request.stream for request in requests}
                    done = self._flush_due(wanted, everything=closing or None in wanted)
                    rows.again_in(0.0 if done else _RETRY_SECONDS)
                    for request in requests:
                        if done:
                            request.act()
                        request.finish(done)
                    if closing:
                        self._leave(done)
                        return
                if self._committer.stale and notes.due():
                    self._attempt(self._committer.commit)
                if beat.due():
                    self._attempt(self._lock.beat)
                if self._fsync and sync.due():
                    for stream in self._streams.values():
                        self._attempt(stream.sync)
        except Exception:
            logger.exception("depthscope stopped flushing %s; accepted rows stay in its log", self._path)
        finally:
            self.finished.set()
            self._ended()

    def _pause(self) -> float:
        return min(HEARTBEAT_SECONDS, self._patience(), _NOTE_SECONDS if self._committer.stale else 60.0)

    def _patience(self) -> float:
        """How long rows wait: little in a young run, so that other readers see its first rows within seconds."""
        age = time.monotonic() - self._started
        return min(self._flush_seconds, max(_FIRST_SECONDS, age / 4))

    def _flush_due(self, wanted: set[str | None], *, everything: bool) -> bool:
        """Flush whole chunks, and all rows of streams that are wanted or have waited; False on trouble."""
        done = True
        for name, rows in self._streams.items():
            waited = rows.waiting_since and time.monotonic() - rows.waiting_since >= self._patience()
            complete = everything or name in wanted or bool(waited)
            done &= self._attempt(partial(self._flush, rows, everything=complete))
        return done

    def _flush(self, rows: StreamRows, *, everything: bool) -> None:
        if self._flusher.flush(rows, everything=everything):
            self._trouble.over()

    def _give_up(self, requests: list[Request]) -> None:
        """Write nothing any more: the run belongs to another process."""
        self.closing = True
        for rows in self._streams.values():
            rows.close()
            self._attempt(partial(rows.close_log, delete=False))
        for request in requests:
            request.finish(False)
        self._lock.release()
        logger.error(
            "%s was taken over by another process while this one was silent; it records nothing more here",
            self._path,
        )

    def _leave(self, flushed: bool) -> None:
        """Mark the run as finished when all of it is in the arrays; otherwise keep the log and say so."""

        def finish() -> None:
            self._committer.close()
            self._committer.commit()

        finished = flushed and self._attempt(finish)
        for rows in self._streams.values():
            self._attempt(partial(rows.close_log, delete=finished))
        if not finished:
            self._attempt(partial(self._lock.beat, left=True))
            where = "its accepted rows are in its log" if self._path.exists() else "its folder is gone"
            lost = sum(rows.dropped for rows in self._streams.values())
            logger.error(
                "%s was not closed; %s%s", self._path, where, f", {lost} rows were lost" if lost else ""
            )
        self._lock.release()

    def _attempt(self, action: Callable[[], object]) -> bool:
        """Do something on the disk; a failure is said once and tried again later."""
        try:
            action()
        except OSError as error:
            self._trouble.met(error)
            return False
        return True


class _Every:
    """Something to do again and again, at first at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._next = seconds, 0.0

    def due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

    def again_in(self, seconds: float) -> None:
        self._next = time.monotonic() + seconds
