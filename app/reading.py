"""A run behind a small cache: maps over all steps are read again only when the run has new rows."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.quantities import DepthLayout
from depthscope.store import Run, bytes_on_disk

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


class CachedRun:
    """A run as figures and findings read it (`depthscope.figures.ReadableRun`), known by an opaque id."""

    def __init__(self, run: Run, identifier: str, cache: ArrayCache = _CACHE) -> None:
        self._run = run
        self._cache = cache
        self._last: tuple[tuple[Any, ...], int | None] | None = None
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

    def steps(self, stream: str) -> npt.NDArray[np.int64]:
        return self._run.steps(stream)

    def version(self) -> tuple[Any, ...]:
        return self._run.version()

    def version_mark(self) -> str:
        """Return a short word that changes with every new row and with the name; it says nothing about files."""
        return hashlib.sha256(repr((self.name, self.version())).encode()).hexdigest()[:12]

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
