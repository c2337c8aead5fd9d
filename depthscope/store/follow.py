"""A run followed while it is written: the newest snapshot, and reads that see one moment only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from depthscope.store.commit import ROOT, Commit, read_commit
from depthscope.store.errors import FORMAT, NotARun, RunError, corrupt, newer_format
from depthscope.store.folder import LOGS, RANK, STORE, RunRecord, attempt_folder, read_record
from depthscope.store.lock import Status, status
from depthscope.store.snapshot import Labels, Snapshot
from depthscope.store.tail import Moved, TailIndex

Array = npt.NDArray[Any]
T = TypeVar("T")
_TRIES = 25


class BadSelection(ValueError):
    """The caller asked for entries that are not there: no fault of the store."""


class Follower:
    """Keeps up with a run's folder by a few stat calls; keeps no file open. Safe from any thread."""

    def __init__(self, path: Path, attempt: int | None = None) -> None:
        """Follow the run, or an earlier attempt of it, counted from 1; BadSelection when there is none of it."""
        self.path = path
        self.record: RunRecord = read_record(path)
        self._rank, self._store = path / RANK, path / RANK / STORE
        self._tails = TailIndex(self._rank / LOGS)
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._signature: tuple[Any, ...] = ()
        self._steps: dict[tuple[str, int, str], Array] = {}
        self._labels: dict[tuple[str, str], dict[str, Labels]] = {}
        self._attempt: int | None = None
        if attempt is not None:
            known = len(self.snapshot().commit.rewinds)
            if not 1 <= attempt <= known + 1:
                raise BadSelection(f"{path} has attempts 1 to {known + 1}; asked for {attempt}")
            if attempt <= known:
                self._attempt, self._snapshot = attempt, None

    def status(self) -> Status:
        closed = self.snapshot().commit.closed
        if self._attempt is not None:
            return "finished" if closed else "crashed"
        return status(self._rank, closed=closed)

    def version(self) -> tuple[Any, ...]:
        """Return a hashable that changes with rows, commits and status."""
        current = self.status()
        return (*self._sign(), current)

    def snapshot(self) -> Snapshot:
        """Return the present state; a new object only when files have changed. RunError when damaged."""
        with self._lock:
            problem = ""
            for attempt in range(_TRIES):
                signature = self._sign()
                if self._snapshot is not None and signature == self._signature:
                    return self._snapshot
                try:
                    commit = self._checked(read_commit(self._store))
                    if self._attempt is not None:
                        return self._keep(self._earlier(commit, self._attempt), signature)
                    tails = {} if commit.closed else self._tails.refresh(commit, signature[1])
                    return self._keep(Snapshot(store=self._store, commit=commit, tails=tails), signature)
                except FileNotFoundError:
                    if not self.path.exists():
                        raise NotARun(
                            self.path, f"the run {self.path} is gone; it was deleted or moved"
                        ) from None
                    problem = f"{RANK}/{STORE}/{ROOT} is missing"
                except RunError:
                    raise
                except OSError as error:
                    raise corrupt(self.path, f"{error.filename} cannot be read: {error.strerror}") from None
                except ValueError as error:
                    raise corrupt(self.path, str(error)) from None
                except Moved:
                    problem = ""
                time.sleep(0.001 * attempt)
            if problem:
                raise corrupt(self.path, problem)
            # Copied without its logs, or they were deleted by hand: the committed rows are all there is.
            tails = self._tails.refresh(commit, signature[1], incomplete=True)
            return self._keep(Snapshot(store=self._store, commit=commit, tails=tails), signature)

    def consistently(self, read: Callable[[Snapshot], T]) -> T:
        """Read from the present snapshot; again when the writer moved or rewound what was being read.

        Commits only ever add rows, so a snapshot stays right while others are made, as long as the epoch is
        the same and its files are there.
        """
        problem = "its files keep changing while they are read"
        for attempt in range(_TRIES):
            snapshot = self.snapshot()
            try:
                result = read(snapshot)
            except Moved:
                self._signature = ()
            except (BadSelection, RunError):
                raise
            except (ValueError, OSError) as error:
                problem = str(error)
                if self.snapshot() is snapshot:
                    break
            else:
                now = self.snapshot()
                if now.identity == snapshot.identity:
                    return result
            time.sleep(0.001 * attempt)
        raise corrupt(self.path, problem)

    def steps(self, snapshot: Snapshot, stream: str) -> Array:
        """Return the step labels of a stream, int64 [rows]; those of committed rows are read once."""
        key = (snapshot.commit.run, snapshot.commit.epoch, stream)
        steps = snapshot.steps(stream, self._steps.get(key))
        self._steps[key] = steps[: snapshot.commit.streams[stream].rows]
        return steps

    def labels(self, snapshot: Snapshot, group: str) -> dict[str, Labels]:
        """Return the coordinates of a group ("" for the root); read once."""
        key = (snapshot.commit.run, group)
        if key not in self._labels:
            self._labels[key] = snapshot.labels(group)
        return self._labels[key]

    def _earlier(self, commit: Commit, attempt: int) -> Snapshot:
        """Return what an earlier attempt holds; `commit` is that of the present one."""
        folders = [attempt_folder(self._rank, k) for k in range(attempt, len(commit.rewinds) + 1)]
        ended = self._checked(read_commit(folders[0]))
        return Snapshot(store=folders[0], commit=ended, tails={}, later=(*folders[1:], self._store))

    def _sign(self) -> tuple[Any, Any]:
        try:
            root = os.stat(self._store / ROOT)
        except (FileNotFoundError, NotADirectoryError):
            return None, ()
        return (root.st_mtime_ns, root.st_ino, root.st_size), self._tails.files()

    def _keep(self, snapshot: Snapshot, signature: tuple[Any, ...]) -> Snapshot:
        old = self._snapshot.commit if self._snapshot is not None else None
        if old is not None and (old.run, old.epoch) != (snapshot.commit.run, snapshot.commit.epoch):
            self._steps, self._labels = {}, {}
        self._snapshot, self._signature = snapshot, signature
        return snapshot

    def _checked(self, commit: Commit) -> Commit:
        if commit.format > FORMAT:
            raise newer_format(self.path, commit.format)
        if commit.run != self.record.id:
            # The folder may hold another run by now.
            self.record = read_record(self.path)
            if commit.run != self.record.id:
                raise ValueError(f"run.json is of run {self.record.id}, {STORE} of run {commit.run}")
        return commit
