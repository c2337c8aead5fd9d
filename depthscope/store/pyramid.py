"""The writer's end of the pyramid: each stream's rows as bins of 32, 256 and 2048, ready for a screen's columns.

Every array has one, scalars and depth attention too: a bin takes what four rows do (eight, of f2), which over all
levels adds a seventh (two sevenths) to the array, and one entry of a map over a long run is then read without
reading the map at every row. Derived quantities have one as well, since a mean of products does not follow
from the means. In memory a level holds the bins of the chunk that still grows, 1 MiB an array at most.

Bins are written with the flush that completes them and become visible with its commit, all arrays of a level at
the same length: `rows // size` bins of the rows that are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from depthscope.quantities import DepthLayout
from depthscope.store.arrays import describe_array
from depthscope.store.arrays import read_rows as read_stored
from depthscope.store.binned import Binned, binned_arrays
from depthscope.store.bins import STATS
from depthscope.store.chain import TOP, Chain, Level, base_row
from depthscope.store.codec import Codec
from depthscope.store.column import Column
from depthscope.store.extension import default_attributes
from depthscope.store.files import replace_json
from depthscope.store.labels import write_labels
from depthscope.store.level import END, LEVELS, PYRAMID, START, chunk_bins, level_path
from depthscope.store.metadata import group_metadata
from depthscope.store.schema import Field
from depthscope.store.specification import Coordinate

Array = npt.NDArray[Any]
ReadRows = Callable[[str, int, int], Array]
"""Of a recorded array: rows [start, stop), [n, ...]; NaN where the array was not there yet."""
COMMENT = (
    "Bins of equally many rows, in order. mean is over finite values; min and max leave NaN out and keep infinities; "
    "nonfinite counts NaN and infinities."
)


class Pyramid:
    """All levels of one stream. One thread at a time."""

    def __init__(self, store: Path, stream: str, layout: DepthLayout, codec: Codec) -> None:
        self._store, self._stream, self._layout, self._codec = store, stream, layout, codec
        self._chains: dict[str, Chain] = {}
        self._binned: dict[str, Binned] = {}
        self._columns: dict[tuple[str, str], Column] = {}
        self._first_bins: dict[tuple[str, str], int] = {}
        self._groups: dict[str, str] = {}
        """Metadata of groups and labels by path."""
        self._levels: list[str] = []
        """Those that are in the store: each from its first bin on."""

    def take(self, start: int, fields: Sequence[Field], columns: Mapping[str, Array]) -> None:
        """Take in the rows from number `start` on, [n, ...] by name; those that are known are passed over.

        An array that was not there before lacks all rows before `start`.
        """
        for binned in binned_arrays(fields):
            chain = self._chains.get(binned.name)
            if chain is None:
                chain = self._begin(binned, start)
            known = chain.rows - start
            chain.take(binned.values({name: columns[name][known:] for name in binned.parts}, self._layout))

    def write(self, *, fsync: bool) -> None:
        """Write the bins that no commit has yet; may be called again after a failure."""
        for index, level in enumerate(LEVELS):
            if level not in self._levels and any(c.levels[index].count for c in self._chains.values()):
                self._create(level, fsync=fsync)
        for level, name, bins in self._present():
            bins.write(self._column(level, name), fsync=fsync)

    def describe(self, rows: int) -> list[tuple[str, str]]:
        """Return path and metadata of every group and array, for a commit of the first `rows` rows."""
        arrays = [
            (
                level_path(self._stream, level, self._binned[name].bins.key),
                self._column(level, name).set_length(rows // LEVELS[level]),
            )
            for level, name, _ in self._present()
        ]
        return [*self._groups.items(), *arrays]

    def committed(self) -> None:
        """Forget what the last commit holds for good."""
        for level, name, bins in self._present():
            bins.committed(self._column(level, name))

    def rebuild_from(
        self, row: int, fields: Sequence[Field], read_rows: ReadRows, nodes: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Go on after the first `row` rows, whatever was taken in before: on resume, recovery and rewind.

        `nodes` are the metadata of the last commit, which holds at least these rows; `read_rows` reads them.
        Bins that the commit has come from its chunks, all others are computed again from the rows.
        """
        self._chains, self._columns, self._first_bins, self._groups, self._levels = {}, {}, {}, {}, []
        for level in LEVELS:
            if level_path(self._stream, level) in nodes:
                self._create(level, fsync=False)
        base = base_row(row)
        for binned in binned_arrays(fields):

            def read(start: int, stop: int, binned: Binned = binned) -> Array:
                rows = {name: read_rows(name, start, stop) for name in binned.parts}
                return binned.values(rows, self._layout)

            chain = self._declare(binned)
            chain.restart(base, [self._kept(binned, level, base, read, nodes) for level in LEVELS])
            chain.take(read(base, row))

    def _kept(
        self,
        binned: Binned,
        level: str,
        base: int,
        read: Callable[[int, int], Array],
        nodes: Mapping[str, Mapping[str, Any]],
    ) -> tuple[Array, int]:
        """Return the bins before row `base` from the last chunk's beginning on, and the first one's number."""
        field, path = binned.bins, level_path(self._stream, level, binned.bins.key)
        count, chunk = base // LEVELS[level], chunk_bins(field)
        start, key = 0, (level, binned.name)
        self._first_bins[key] = 0
        with suppress(KeyError, OSError, ValueError):  # What is not there, or damaged, is computed again.
            stored = describe_array(self._store / path, nodes[path], over="bin")
            if stored.rows >= count and stored.shape == field.shape:
                start = count // chunk * chunk
                self._first_bins[key] = min(stored.first_row, start)
                if stored.first_row // chunk * chunk <= start:
                    return read_stored(stored, start, count), start
        again = binned.chain(chunk)
        for begin in range(start * LEVELS[level], base, TOP):
            again.take(read(begin, min(begin + TOP, base)))
        return again.levels[list(LEVELS).index(level)].bins, start

    def _begin(self, binned: Binned, row: int) -> Chain:
        """Start an array that came with row number `row`."""
        chain, base = self._declare(binned), base_row(row)
        kept = []
        for level, size in LEVELS.items():
            count, chunk = base // size, chunk_bins(binned.bins)
            start = count // chunk * chunk
            self._first_bins[level, binned.name] = count
            kept.append((binned.lacking_bins(count - start, size), start))
        chain.restart(base, kept)
        chain.take(binned.lacking(row - base))
        return chain

    def _declare(self, binned: Binned) -> Chain:
        self._binned[binned.name] = binned
        chain = self._chains[binned.name] = binned.chain(chunk_bins(binned.bins))
        return chain

    def _present(self) -> Iterator[tuple[str, str, Level]]:
        """Yield level, array and bins of everything that is in the store."""
        for index, level in enumerate(LEVELS):
            if level in self._levels:
                for name, chain in self._chains.items():
                    yield level, name, chain.levels[index]

    def _column(self, level: str, name: str) -> Column:
        key = level, name
        if key not in self._columns:
            field, known = self._binned[name].bins, default_attributes(name)
            self._columns[key] = Column(
                self._store / level_path(self._stream, level, field.key),
                field,
                rows=chunk_bins(field),
                attributes={word: known[word] for word in ("long_name", "units") if word in known},
                first_row=self._first_bins.get(key, 0),
                over="bin",
                codec=self._codec,
            )
        return self._columns[key]

    def _create(self, level: str, *, fsync: bool) -> None:
        """Make a level part of the next commit, with the groups above it."""
        levels = [*self._levels, level]
        layout = [
            {"asset": name, "transform": {"scale": [float(LEVELS[name])]}}
            | ({"derived_from": before} if before else {})
            for before, name in zip(["", *levels], levels, strict=False)
        ]
        groups: dict[str, dict[str, Any]] = {
            PYRAMID: {},
            f"{PYRAMID}/{self._stream}": {"multiscales": {"layout": layout}},
            level_path(self._stream, level): {
                "coordinates": f"{START} {END}",
                "rows": LEVELS[level],
                "comment": COMMENT,
            },
        }
        stat = level_path(self._stream, level, "stat")
        for path, attributes in groups.items():
            (self._store / path).mkdir(exist_ok=True)
            self._groups[path] = replace_json(
                self._store / path / "zarr.json", group_metadata(attributes), fsync=False
            )
        labels = Coordinate(name="stat", dim="stat", values=STATS)
        self._groups[stat] = write_labels(self._store / stat, labels, fsync=fsync)
        self._levels = levels
