"""`Run`: a recorded run, opened for reading, live or finished."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout
from depthscope.store import reading
from depthscope.store.effects import Sweep, list_sweeps
from depthscope.store.follow import BadSelection, Follower
from depthscope.store.history import Gap, Rewind
from depthscope.store.lock import Status
from depthscope.store.snapshot import Recorded, Snapshot

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True)
class SublayerRecord:
    """One sublayer of the recorded model; `index` counts from 1."""

    index: int
    name: str
    kind: str
    transformer_block: int
    residual_block: int


def open_run(path: str | os.PathLike[str], *, attempt: int | None = None) -> Run:
    """Open the run in the folder `path` for reading, also while it is being written.

    `attempt` selects an earlier attempt, counted from 1; ValueError when there is none of that number.
    NotARun, NewerFormat or CorruptRun (all RunError) say why it cannot be.
    """
    return Run(Path(path).absolute(), attempt)


class Run:
    """A run on disk. Every access sees the rows that are there by then; safe from any thread.

    Array names are those of `depthscope.quantities` and the user's own metrics. A name that two streams have
    means the one of the stream that was declared first; ``stream/name`` says which.
    """

    def __init__(self, path: Path, attempt: int | None = None) -> None:
        self.path = path
        self._shown_name: str | None = None
        self._follower = Follower(path, attempt)
        self._follower.snapshot()

    def __repr__(self) -> str:
        return f"<depthscope run {self.name!r}, {self.status}, last step {self.last_step}: {self.path}>"

    @property
    def id(self) -> str:
        return self._follower.record.id

    @property
    def name(self) -> str:
        return self._shown_name or self.recorded_name

    @property
    def recorded_name(self) -> str:
        """The name that was given to the recorder, also of a run that is shown under another."""
        return self._follower.record.name

    def renamed(self, name: str) -> Run:
        """Return this run under another name, for what is shown of it; its files stay as they are."""
        other = copy.copy(self)
        other._shown_name = name
        return other

    @property
    def config(self) -> Mapping[str, Any]:
        """The training configuration, as it was given."""
        return self._follower.record.config

    @property
    def tags(self) -> tuple[str, ...]:
        return self._follower.record.tags

    @property
    def created(self) -> str:
        """UTC, ISO 8601."""
        return self._follower.record.created

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Python and of the packages that wrote the run."""
        return self._follower.record.versions

    @property
    def layout(self) -> DepthLayout:
        return self._follower.record.layout

    @property
    def sublayers(self) -> tuple[SublayerRecord, ...]:
        """The sublayers in forward order."""
        layout = self.layout
        entries = zip(
            layout.layer_names,
            layout.layer_kinds,
            layout.transformer_block,
            layout.residual_block,
            strict=True,
        )
        return tuple(
            SublayerRecord(
                index=index, name=name, kind=kind, transformer_block=transformer, residual_block=residual
            )
            for index, (name, kind, transformer, residual) in enumerate(entries, start=1)
        )

    def sweeps(self) -> tuple[Sweep, ...]:
        """The sweeps of interventions beside the run that can be read, by step and then name."""
        return tuple(list_sweeps(self.path))

    @property
    def status(self) -> Status:
        """``finished`` when it was closed; ``stopped`` when an exception or Ctrl-C closed it.

        Else ``live`` while its writer runs, ``crashed`` after that.
        """
        found = self._follower.status()
        return "stopped" if found == "finished" and "stopped" in self.notes else found

    @property
    def streams(self) -> dict[str, Any]:
        """The cadence of each stream, as it was declared."""
        snapshot = self._follower.snapshot()
        return {name: snapshot.attributes(name).get("every", 1) for name in snapshot.streams}

    @property
    def attempts(self) -> tuple[Rewind, ...]:
        """The earlier attempts, oldest first, each by the rewind that ended it; empty when there were none."""
        return tuple(Rewind(*rewind) for rewind in self._follower.snapshot().commit.rewinds)

    def attempt(self, number: int) -> Run:
        """Return the run as it was in an earlier attempt, counted from 1, with its rows beyond the rewind.

        ValueError when there is none of that number; ``len(run.attempts) + 1`` is the run itself.
        """
        return Run(self.path, number)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Rows that were dropped while the run was recorded; empty when all of them are there."""
        return self._follower.snapshot().commit.gaps

    @property
    def notes(self) -> dict[str, Any]:
        """What the recorder noted: ``missing``, ``report``, ..."""
        return dict(self._follower.snapshot().commit.notes)

    @property
    def missing(self) -> dict[str, str]:
        """Quantities that are not recorded, and why."""
        missing = self.notes.get("missing", {})
        return {str(k): str(v) for k, v in missing.items()} if isinstance(missing, dict) else {}

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names that can be read, derived ones included; ``stream/name`` where an earlier stream has the name."""
        return self._follower.consistently(reading.readable)

    @property
    def last_step(self) -> int | None:
        """The largest step label of any row; None while there is none."""

        def last(snapshot: Snapshot) -> int | None:
            ends = [snapshot.last_step(stream) for stream in snapshot.streams]
            return max((end for end in ends if end is not None), default=None)

        return self._follower.consistently(last)

    def rows(self, stream: str) -> int:
        """Return how many rows a stream holds by now; KeyError for a stream that is not there."""
        snapshot = self._follower.snapshot()
        self._check(snapshot, stream)
        return snapshot.rows(stream)

    def stream_of(self, name: str) -> str:
        """Return the stream whose rows a quantity is read from; KeyError as in `read`."""
        return self._follower.consistently(lambda snapshot: self._find(snapshot, name).stream)

    def steps(self, stream: str) -> npt.NDArray[np.int64]:
        """Return the step labels of a stream's rows, int64 [rows]; KeyError for a stream that is not there."""
        self._check(self._follower.snapshot(), stream)
        return self._follower.consistently(lambda snapshot: self._follower.steps(snapshot, stream).copy())

    def version(self) -> tuple[Any, ...]:
        """Return a hashable that changes whenever rows, commits or the status do; costs a few stat calls."""
        return self._follower.version()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._follower.consistently(
            lambda snapshot: reading.find(snapshot, name) is not None
        )

    def __getitem__(self, name: str) -> xr.DataArray:
        """Return all rows of a quantity, those that are only in the log included; see `read`."""
        return self.read(name)

    def read(
        self,
        name: str,
        start: int | None = None,
        stop: int | None = None,
        layers: Iterable[int] | int | None = None,
        columns: int | None = None,
    ) -> xr.DataArray:
        """Return a quantity over the steps start <= step < stop.

        Without `columns`: dims (step, ...), every row as it was recorded. With it: dims (step, stat, ...), at
        most `columns` bins of equally many rows (the first and the last may be cut), exact whatever their size;
        stat is mean (over finite values), min, max (NaN left out, infinities kept) and nonfinite (how many values
        are NaN or infinite). Long ranges are read from the pyramid: a bin then spans whole bins of a level, so
        that there are between half of `columns` and all of them. ``step`` is the first step of a bin, the
        coordinates ``step_start`` and ``step_end`` its first and last.
        `layers` selects layers, or targets, by number (from 1).

        KeyError lists what exists, and says why the quantity is missing where that is known; ValueError for
        layers or columns that make no sense; RunError when files are damaged.
        """
        if columns is not None and columns < 1:
            raise BadSelection(f"columns is {columns}; expected at least 1")

        def once(snapshot: Snapshot) -> xr.DataArray:
            return reading.read(
                self._follower,
                snapshot,
                self._find(snapshot, name),
                start=start,
                stop=stop,
                layers=layers,
                columns=columns,
            )

        return self._follower.consistently(once)

    def to_datatree(self) -> xr.DataTree:
        """Return everything recorded, in memory: one node a stream, rows of the log included.

        For a run too large for that, open ``rank00000/data.zarr`` with `xarray.open_datatree`, which loads on
        use and sees the committed rows.
        """
        return self._follower.consistently(lambda snapshot: reading.tree(self._follower, snapshot))

    def _find(self, snapshot: Snapshot, name: str) -> Recorded:
        array = reading.find(snapshot, name)
        if array is None:
            raise KeyError(reading.unknown(snapshot, name, self.name, self.missing))
        return array

    def _check(self, snapshot: Snapshot, stream: str) -> None:
        if stream not in snapshot.streams:
            known = ", ".join(snapshot.streams)
            raise KeyError(f"run {self.name!r} has no stream {stream!r}; it has {known}")
