"""A run behind a small cache: maps over all steps are read again only when the run has new rows."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.quantities import DepthLayout
from depthscope.store import Run, Sweep, bytes_on_disk, open_sweep, sweep_folder

_CACHE_BYTES = 256 * 2**20


class ArrayCache:
    """The arrays used last, up to a number of bytes; safe from any thread."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._arrays: OrderedDict[Hashable, xr.DataArray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> xr.DataArray | None:
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
            return self._arrays.get(key)

    def put(self, key: Hashable, array: xr.DataArray) -> None:
        with self._lock:
            if key not in self._arrays:
                self._arrays[key] = array
                self._size += array.nbytes
            while self._size > self._limit and self._arrays:
                self._size -= self._arrays.popitem(last=False)[1].nbytes


_CACHE = ArrayCache()
_SWEEPS_KEPT = 64


class KeptSweep(Sweep):
    """A sweep whose arrays are kept in memory until one more effect is measured."""

    def read(self, names: Collection[str] | None = None) -> xr.Dataset:
        return _read_sweep(self.path, self.cells.mark(), None if names is None else tuple(names))


@lru_cache(maxsize=_SWEEPS_KEPT)
def _read_sweep(path: Path, mark: tuple[int, ...], names: tuple[str, ...] | None) -> xr.Dataset:
    return open_sweep(path).read(names)


class CachedRun:
    """A run as figures and findings read it (`depthscope.figures.ReadableRun`), known by an opaque id."""

    def __init__(self, run: Run, identifier: str, cache: ArrayCache = _CACHE, *, place: str = "") -> None:
        """`place` is its folder as it is typed beside the folder that is served."""
        self._run = run
        self.place = place or run.path.name
        self._cache = cache
        self._last: tuple[tuple[Any, ...], int | None] | None = None
        self._sweeps: tuple[int, tuple[KeptSweep, ...]] | None = None
        self.id = identifier

    @property
    def run(self) -> Run:
        """The run itself, for what is not read column by column."""
        return self._run

    @property
    def name(self) -> str:
        """What the run is called here; `recorded_name` is what it was called when it was recorded."""
        return self._run.name

    @property
    def recorded_name(self) -> str:
        return self._run.recorded_name

    @property
    def status(self) -> str:
        return self._run.status

    @property
    def config(self) -> Mapping[str, Any]:
        return self._run.config

    @property
    def layout(self) -> DepthLayout:
        return self._run.layout

    @property
    def last_step(self) -> int | None:
        """The newest step with values over depth: a validation loss after the last one does not count."""
        version = self._run.version()
        if self._last is None or self._last[0] != version:
            steps = self._run.steps("fast") if "fast" in self._run.streams else np.empty(0, np.int64)
            self._last = (version, int(steps[-1]) if steps.size else self._run.last_step)
        return self._last[1]

    @property
    def quantities(self) -> tuple[str, ...]:
        return self._run.quantities

    @property
    def missing(self) -> Mapping[str, str]:
        return self._run.missing

    @property
    def streams(self) -> Mapping[str, Any]:
        return self._run.streams

    def __contains__(self, name: str) -> bool:
        return name in self._run

    def sweeps(self) -> tuple[Sweep, ...]:
        """Return the sweeps of interventions beside the run; what they hold is read again only when it grew."""
        folder = sweep_folder(self._run.path)
        try:
            changed = folder.stat().st_mtime_ns
        except OSError:
            return ()
        if self._sweeps is None or self._sweeps[0] != changed:
            self._sweeps = (changed, tuple(KeptSweep(each.path, each.cells) for each in self._run.sweeps()))
        return self._sweeps[1]

    def stream_of(self, name: str) -> str:
        return self._run.stream_of(name)

    def steps(self, stream: str) -> npt.NDArray[np.int64]:
        return self._run.steps(stream)

    def version(self) -> tuple[Any, ...]:
        return self._run.version()

    def version_mark(self) -> str:
        """Return a short word that changes with every new row, with each measured effect and with the name.

        It says nothing about files.
        """
        seen = (self.name, self.version(), self.sweep_marks())
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]

    def sweep_marks(self) -> tuple[Any, ...]:
        """Return what changes with every effect that is measured."""
        return tuple((sweep.name, sweep.cells.mark()) for sweep in self.sweeps())

    def bytes_on_disk(self) -> int:
        """Return the bytes of all the run's files, those of earlier attempts included."""
        return bytes_on_disk(self._run.path)

    def newest_row_time(self) -> float | None:
        """Return when the newest row was recorded, in seconds since the epoch; None before the first row."""
        last = self._run.last_step
        if last is None:
            return None
        times = [
            float(array.values[-1])
            for stream in self._run.streams
            if (array := self._run.read(f"{stream}/wall_time", start=last)).size
        ]
        return max(times, default=None)

    def read(
        self,
        name: str,
        start: int | None = None,
        stop: int | None = None,
        layers: Sequence[int] | None = None,
        columns: int | None = None,
    ) -> xr.DataArray:
        """Read as `depthscope.store.Run.read` does; what is reduced to columns is kept."""
        if columns is None:
            return self._run.read(name, start, stop, layers)
        key = (self.id, self.version(), name, start, stop, None if layers is None else tuple(layers), columns)
        kept = self._cache.get(key)
        if kept is None:
            kept = self._run.read(name, start, stop, layers, columns)
            self._cache.put(key, kept)
        return kept
