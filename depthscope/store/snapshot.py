"""A run at one moment: the rows of the last commit and the rows of the logs that go on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from depthscope.store.arrays import StoredArray, describe_array, read_rows
from depthscope.store.bins import NONFINITE, STATS
from depthscope.store.commit import Commit
from depthscope.store.files import read_json
from depthscope.store.folder import KEPT
from depthscope.store.labels import is_labels, read_labels
from depthscope.store.level import LEVELS, level_path
from depthscope.store.specification import array_key
from depthscope.store.tail import Piece

Array = npt.NDArray[Any]
Labels = tuple[str, Array]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What is known of a recorded array without reading it."""

    name: str
    stream: str
    dims: tuple[str, ...]
    """Without ``step``."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Immutable; its files may go away, then reading raises `Moved` and a new snapshot is due."""

    store: Path
    commit: Commit
    tails: Mapping[str, tuple[Piece, ...]]
    later: tuple[Path, ...] = ()
    """Of an earlier attempt: the stores of later ones, which hold what they have in common; the last is whole."""
    _described: dict[str, StoredArray] = field(default_factory=dict)
    _arrays: dict[str, dict[str, Recorded]] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for snapshots between which rows were only added."""
        return self.commit.run, self.commit.epoch, self.later

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.commit.streams)

    def rows(self, stream: str) -> int:
        return self.commit.streams[stream].rows + sum(piece.count for piece in self.tails.get(stream, ()))

    def attributes(self, stream: str) -> Mapping[str, Any]:
        """Return the attributes of a stream's group."""
        attributes = self.commit.nodes.get(stream, {}).get("attributes", {})
        return attributes if isinstance(attributes, dict) else {}

    def arrays(self, stream: str) -> dict[str, Recorded]:
        """Return the recorded arrays of a stream by name, ``step`` left out."""
        if stream not in self._arrays:
            self._arrays[stream] = self._recorded(stream)
        return self._arrays[stream]

    def _recorded(self, stream: str) -> dict[str, Recorded]:
        found: dict[str, Recorded] = {}
        for path, node in self.commit.nodes.items():
            if (
                path.rpartition("/")[0] == stream
                and node.get("node_type") == "array"
                and not is_labels(dict(node))
            ):
                stored = self.stored_at(path)
                found[stored.name] = Recorded(
                    name=stored.name,
                    stream=stream,
                    dims=stored.dims,
                    shape=stored.shape,
                    dtype=stored.dtype,
                    attributes=stored.attributes,
                )
        for piece in self.tails.get(stream, ()):
            for f in piece.span.schema.fields:
                if f.name not in found:
                    found[f.name] = Recorded(
                        name=f.name,
                        stream=stream,
                        dims=f.dims,
                        shape=f.shape,
                        dtype=np.dtype(f.dtype),
                        attributes={},
                    )
        found.pop("step", None)
        return found

    def steps(self, stream: str, known: Array | None = None) -> Array:
        """Return the step labels of all rows; `known` are those of the first committed rows."""
        head = np.empty(0, "i8") if known is None else known
        committed = self.commit.streams[stream].rows
        if len(head) < committed:
            head = np.concatenate([head, self._committed(f"{stream}/step", len(head), committed)])
        tail = [step for piece in self.tails.get(stream, ()) for step in piece.steps]
        return np.concatenate([head[:committed], np.array(tail, "i8")])

    def last_step(self, stream: str) -> int | None:
        """Return the step label of the last row; None when there is no row."""
        pieces, committed = self.tails.get(stream, ()), self.commit.streams[stream].rows
        if pieces:
            return pieces[-1].steps[-1]
        return int(self._committed(f"{stream}/step", committed - 1, committed)[0]) if committed else None

    def read(self, array: Recorded, start: int, stop: int) -> Array:
        """Return rows [start, stop) of a recorded array, [n, ...]."""
        committed = self.commit.streams[array.stream].rows
        parts = []
        if start < committed:
            low, high = start, min(stop, committed)
            path = self._path(array.stream, array.name)
            if path is None:
                parts.append(_missing(array, high - low))
            else:
                parts.append(self._committed(path, low, high))
        position = committed
        for piece in self.tails.get(array.stream, ()):
            low, high = max(start - position, 0), min(stop - position, piece.count)
            if low < high:
                rows = piece.read(array.name, low, high)
                parts.append(_missing(array, high - low) if rows is None else rows.copy())
            position += piece.count
        if not parts:
            return _missing(array, 0)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def bins(self, array: Recorded, level: str) -> int:
        """Return how many bins of a recorded or derived array a level of the pyramid has; 0 without one."""
        path = level_path(array.stream, level, array_key(array.name))
        if path not in self.commit.nodes:
            return 0
        stored = self.stored_at(path, over="bin")
        rows = self.commit.streams[array.stream].rows
        if stored.shape != (len(STATS), *array.shape) or stored.rows != rows // LEVELS[level]:
            raise ValueError(f"{path} has {stored.rows} bins of shape {stored.shape} for {rows} rows")
        return stored.rows

    def read_bins(self, array: Recorded, level: str, start: int, stop: int) -> Array:
        """Return bins [start, stop) of a level, [n, 4, ...]; see `depthscope.store.bins.STATS`."""
        stored = self.stored_at(level_path(array.stream, level, array_key(array.name)), over="bin")
        bins = read_rows(stored, start, stop)
        # Chunks from before the array was there do not exist: all of their rows lack it.
        lacking = bins[: max(0, stored.first_row - start), NONFINITE]
        lacking[np.isnan(lacking)] = LEVELS[level]
        return bins

    def labels(self, group: str) -> dict[str, Labels]:
        """Return the coordinates of a group ("" for the root) as (dim, values) by name."""
        found = {}
        for path, node in self.commit.nodes.items():
            parent, _, name = path.rpartition("/")
            if parent == group and is_labels(dict(node)):
                found[name] = read_labels((self.store, *self.later)[-1] / path, dict(node))
        return found

    def stored(self, stream: str, name: str) -> StoredArray | None:
        """Return how an array is stored, ``step`` included; None when no commit has it."""
        path = self._path(stream, name)
        return None if path is None else self.stored_at(path)

    def _path(self, stream: str, name: str) -> str | None:
        for path in self.commit.nodes:
            group, _, key = path.rpartition("/")
            if group == stream and unquote(key) == name:
                return path
        return None

    def stored_at(self, path: str, *, over: str = "step") -> StoredArray:
        """Return how the array at a path inside the store is stored; ValueError when that cannot be."""
        if path not in self._described:
            described = describe_array(self.store / path, self.commit.nodes[path], over=over)
            self._described[path] = replace(
                described,
                others=tuple(store / path for store in self.later),
                own_from=self._kept().get(path) if self.later else None,
            )
        return self._described[path]

    def _kept(self) -> dict[str, int]:
        """Return, for an earlier attempt, each array's first chunk of its own; empty for one of before it was noted."""
        try:
            return {path: int(first) for path, first in read_json(self.store / KEPT).items()}
        except FileNotFoundError:
            return {}
        except (TypeError, ValueError, AttributeError):
            raise ValueError(f"{KEPT} of the earlier attempt {self.store.name} cannot be read") from None

    def _committed(self, path: str, start: int, stop: int) -> Array:
        if path not in self.commit.nodes:
            raise ValueError(f"the array {path} is missing")
        return read_rows(self.stored_at(path), start, stop)


def _missing(array: Recorded, count: int) -> Array:
    if prod((count, *array.shape)) * array.dtype.itemsize > 2**33:
        raise ValueError(f"{array.name} claims {count} rows of {array.shape}")
    return np.full((count, *array.shape), np.nan, array.dtype)
