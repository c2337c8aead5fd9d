"""`RunWriter`: rows go into the log in the caller; a thread of its own moves them into the arrays."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from depthscope.quantities import DepthLayout
from depthscope.store import leaving
from depthscope.store.commit import Committer
from depthscope.store.creation import claim, create_files
from depthscope.store.errors import RunError, corrupt
from depthscope.store.flush import Flusher
from depthscope.store.flush_thread import FlushThread, Request
from depthscope.store.folder import RANK, read_record
from depthscope.store.jsonable import jsonable
from depthscope.store.lock import WriterLock
from depthscope.store.resuming import Recovered, resume_files
from depthscope.store.rewinding import rewind
from depthscope.store.specification import Coordinate, StreamSpec
from depthscope.store.stream import StreamRows
from depthscope.store.trouble import Signals, Trouble

logger = logging.getLogger("depthscope.store")


class RunWriter:
    """Writes one run. Made by `RunWriter.create`; safe from any thread; close it, or leave.

    In a forked child it is inert: `append` returns False and nothing is written.
    """

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
        recovered: Recovered | None = None,
    ) -> None:
        self.path, self._flusher, self._fsync = path, flusher, fsync
        self.recovered = recovered
        """What was found when a run was opened again; None for a new one."""
        self._lock, self._committer, self._streams, self._wake = lock, committer, streams, wake
        self._pid = os.getpid()
        self._strict = os.environ.get("DEPTHSCOPE_STRICT", "") not in ("", "0")
        self._accepted = self._last_step()
        self._was_closed = recovered is not None and recovered.closed
        """The run was closed, and has no row since."""
        self._lost = 0
        self._told: set[str] = set()
        leaving.watch(self)
        self._thread = FlushThread(
            path,
            lock,
            committer,
            flusher,
            streams,
            wake=wake,
            trouble=trouble,
            flush_seconds=flush_seconds,
            fsync=fsync,
            ended=lambda: leaving.unwatch(self),
        )

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str,
        config: Mapping[str, Any],
        layout: DepthLayout,
        streams: Sequence[StreamSpec],
        coordinates: Sequence[Coordinate] = (),
        tags: Sequence[str] = (),
        versions: Mapping[str, str] | None = None,
        flush_seconds: float = 60.0,
        fsync: bool = True,
    ) -> RunWriter:
        """Create a run in the folder `path`, which holds no rows yet, and return its writer.

        `config` is kept as plain data (what JSON has no word for becomes text). Coordinates that follow from
        the `layout` need not be given. A row stays in the log alone for `flush_seconds` at most; without
        `fsync` rows survive a crash of the process, but not of the machine.

        FileExistsError when the path holds rows, RunLocked when another recorder writes there, ValueError
        when arrays, dims and coordinates contradict one another.
        """
        folder, wake = Path(path).absolute(), threading.Event()
        trouble = Trouble(folder)
        lock = claim(folder)
        try:
            committer, flusher, rows = create_files(
                folder,
                name=name,
                config=config,
                tags=tags,
                layout=layout,
                coordinates=coordinates,
                streams=streams,
                versions=versions or {},
                signals=Signals(full=wake.set, trouble=trouble),
                fsync=fsync,
            )
            return cls(
                folder,
                lock,
                committer,
                flusher,
                rows,
                wake=wake,
                trouble=trouble,
                flush_seconds=flush_seconds,
                fsync=fsync,
            )
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        step: int | None = None,
        layout: DepthLayout | None = None,
        streams: Sequence[StreamSpec] = (),
        coordinates: Sequence[Coordinate] = (),
        flush_seconds: float = 60.0,
        fsync: bool = True,
    ) -> RunWriter:
        """Open the run in the folder `path` for more rows, whether it was closed, stopped or killed.

        Every row that was ever accepted is recovered first. With `step`, rows from that step on become an
        earlier attempt (see `rewind`). What is declared of the layout, the streams and the coordinates is
        compared with what the run holds; a new stream or array is added.

        NotARun and other RunErrors when there is no run to go on with, RunLocked when another recorder writes
        it, SchemaError when it was recorded with another model, OSError when the disk refuses.
        """
        folder, wake = Path(path).absolute(), threading.Event()
        trouble = Trouble(folder)
        read_record(folder)
        lock = WriterLock(folder / RANK, folder)
        try:
            lock.claim()
            opened = resume_files(
                folder,
                layout=layout,
                streams=streams,
                coordinates=coordinates,
                signals=Signals(full=wake.set, trouble=trouble),
                fsync=fsync,
            )
            writer = cls(
                folder,
                lock,
                opened.committer,
                opened.flusher,
                opened.streams,
                wake=wake,
                trouble=trouble,
                flush_seconds=flush_seconds,
                fsync=fsync,
                recovered=opened.recovered,
            )
        except BaseException:
            lock.leave()
            raise
        if step is not None:
            try:
                writer.rewind(step)
            except BaseException:
                writer.close()
                raise
        return writer

    def rewind(self, step: int) -> bool:
        """Take back all rows from `step` on: they become an earlier attempt, which readers can select.

        True when there were any. Call it while nobody appends. OSError when the disk refuses: the run is as
        it was.
        """
        if os.getpid() != self._pid:
            return False
        done: list[bool] = []

        def act() -> None:
            done.append(
                rewind(
                    self.path / RANK,
                    step,
                    committer=self._committer,
                    flusher=self._flusher,
                    streams=self._streams,
                    closed=self._was_closed,
                    fsync=self._fsync,
                )
            )

        request = self._thread.request(None, act)
        self._wait(request)
        if isinstance(request.error, OSError | RunError):
            raise request.error
        if request.error is not None:
            raise corrupt(self.path, str(request.error)) from request.error
        if not request.succeeded:
            raise OSError(f"{self.path} could not be rewound to step {step}: its rows cannot be written")
        if done[0]:
            self._accepted, self._was_closed = self._last_step(), False
        return done[0]

    def _last_step(self) -> int | None:
        steps = [rows.last_step for rows in self._streams.values() if rows.last_step is not None]
        return max(steps, default=None)

    @property
    def accepted_step(self) -> int | None:
        """The largest step of which a row is in the log; None before the first."""
        return self._accepted

    @property
    def dropped(self) -> int:
        """Rows that could not be accepted."""
        return self._lost + sum(rows.dropped for rows in self._streams.values())

    @property
    def closed(self) -> bool:
        """True once `close` was called; nothing is accepted any more."""
        return self._thread.closing

    def append(self, stream: str, step: int, values: Mapping[str, Any]) -> bool:
        """Put a row into the log of a stream; True when it is there, readable even after kill -9.

        Steps of a stream never go back. An array that is not in `values` gets NaN. A name that the stream
        does not have yet becomes a new array, NaN in the rows before: f8 for a number, f4 for an array.
        False when the row was dropped (a full disk, a closed run): it is counted and logged once. Under
        DEPTHSCOPE_STRICT a wrong shape, name or step raises KeyError, TypeError, ValueError or RuntimeError;
        otherwise it is logged once, and the value is NaN.
        """
        if os.getpid() != self._pid:
            return False
        try:
            accepted = self._stream(stream).append(int(step), values, self._strict)
        except (KeyError, TypeError, ValueError) as error:
            if self._strict:
                raise
            self._lost += 1
            self._tell(f"a row of stream {stream!r} was dropped: {error!r}")
            return False
        if accepted:
            self._was_closed = False
        if accepted and (self._accepted is None or step > self._accepted):
            self._accepted = int(step)
        return accepted

    def annotate(self, key: str, value: Any) -> None:
        """Keep a note with the run, visible to readers within about a second.

        An object is merged into an object of the same key; anything else replaces it.
        """
        if os.getpid() == self._pid:
            self._committer.annotate(str(key), jsonable(value))
            self._wake.set()

    def keep_notes(self) -> bool:
        """Wait until every note so far is on disk; True when it is.

        For a note that a row must not be read without: keep it, then append the row.
        """
        if os.getpid() != self._pid or self._thread.finished.is_set():
            return False

        def commit() -> None:
            if self._committer.stale:
                self._committer.commit()

        request = self._thread.request(None, commit)
        self._wait(request)
        return request.succeeded and request.error is None

    def flush(self, stream: str | None = None) -> bool:
        """Commit all accepted rows of a stream, or of all; True when that is done.

        Not needed for reading with `open_run`, which sees the log; for xarray and other zarr readers it is.
        """
        if stream is not None:
            self._stream(stream)
        if os.getpid() != self._pid or self._thread.finished.is_set():
            return False
        request = self._thread.request(stream)
        self._wait(request)
        return request.succeeded

    def _wait(self, request: Request) -> None:
        while not request.done.wait(0.5):
            if self._thread.finished.is_set():
                break

    def close(self) -> None:
        """Commit the rest and mark the run as finished. Safe to call again."""
        if os.getpid() == self._pid:
            self.begin_close()
            self._thread.finished.wait()

    def begin_close(self) -> None:
        """Start to close, without waiting."""
        self._thread.begin_close()

    def wait_closed(self, seconds: float) -> bool:
        """Wait for the end of the flush thread; False when it is still busy."""
        return self._thread.finished.wait(seconds)

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited; the parent keeps its lock and its log."""
        self._lock.release()
        for rows in self._streams.values():
            rows.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stream(self, name: str) -> StreamRows:
        try:
            return self._streams[name]
        except KeyError:
            known = ", ".join(self._streams)
            raise KeyError(f"there is no stream {name!r}; this run has {known}") from None

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            logger.warning("%s", message)
