"""Arrays of fixed shape that are filled chunk by chunk: what a sweep of interventions writes.

A chunk is one atomic file, so a chunk that is there is finished, and a killed sweep goes on with the ones that are
not. All metadata are written once, before the first chunk; any zarr v3 reader sees NaN where nothing is yet.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from depthscope.store.chunk import LARGEST_CHUNK, decode_chunk, encode_chunk
from depthscope.store.codec import Codec
from depthscope.store.errors import FORMAT, CorruptSweep, NotARun, newer_format
from depthscope.store.files import PARTIAL, read_json, replace_file, replace_json
from depthscope.store.jsonable import jsonable
from depthscope.store.labels import read_labels, write_labels
from depthscope.store.metadata import DTYPES, array_metadata, group_metadata
from depthscope.store.specification import Coordinate

if TYPE_CHECKING:
    import xarray as xr

Array = npt.NDArray[Any]
ROOT = "zarr.json"
_LARGEST_ARRAY = 2**30
_KINDS: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8"), "i8": np.dtype("<i8")}


@dataclass(frozen=True, kw_only=True)
class CellArray:
    """An array of `shape`, filled in chunks of shape `chunk`."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: str = "f8"
    """f4, f8, or i8 for what has a value everywhere."""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chunks(self) -> tuple[int, ...]:
        """How many chunks lie along each dim."""
        return tuple(-(-size // part) for size, part in zip(self.shape, self.chunk, strict=True))


class CellStore:
    """A store of cell arrays at `path`, for writing chunks and for reading all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        root = _root(path)
        self.attributes: Mapping[str, Any] = root["attributes"]
        self._nodes: Mapping[str, Any] = root["consolidated_metadata"]["metadata"]
        self._arrays = {
            name: _described(path, name, node) for name, node in self._nodes.items() if _is_cells(node)
        }

    @classmethod
    def create(
        cls,
        path: Path,
        arrays: Sequence[CellArray],
        *,
        coordinates: Sequence[Coordinate] = (),
        attributes: Mapping[str, Any],
    ) -> CellStore:
        """Write a store without chunks; FileExistsError where something is. It appears whole or not at all."""
        if path.exists():
            raise FileExistsError(f"{path} exists already")
        partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        nodes: dict[str, str] = {}
        for entry in coordinates:
            nodes[entry.name] = write_labels(partial / entry.name, entry, fsync=False)
        for array in arrays:
            (partial / array.name).mkdir()
            described = array_metadata(
                shape=array.shape,
                chunk_shape=array.chunk,
                dtype=array.dtype,
                dims=array.dims,
                attributes=array.attributes,
                codec=Codec(),
            )
            nodes[array.name] = replace_json(partial / array.name / ROOT, described, fsync=False)
        labels = " ".join(entry.name for entry in coordinates)
        described = group_metadata({**jsonable(attributes), "format": FORMAT, "coordinates": labels})
        consolidated = {name: json.loads(text) for name, text in nodes.items()}
        root = {
            **described,
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": consolidated},
        }
        replace_json(partial / ROOT, root, fsync=False)
        os.replace(partial, path)
        return cls(path)

    def array(self, name: str) -> CellArray:
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def has(self, name: str, place: Sequence[int]) -> bool:
        """Return whether the chunk at `place`, counted in chunks, is finished."""
        return self._file(name, place).exists()

    def finished(self, dim: str) -> int:
        """Return at how many places along `dim` chunks are finished; 0 without an array along it."""
        found = set()
        for name, array in self._arrays.items():
            if dim in array.dims:
                places = (_place(file.name, array) for file in (self.path / name).glob("c.*"))
                found |= {place[array.dims.index(dim)] for place in places if place is not None}
        return len(found)

    def put(self, name: str, place: Sequence[int], values: Array) -> None:
        """Write one whole chunk; from then on it is finished, whatever happens to the process."""
        array = self._arrays[name]
        if values.shape != array.chunk:
            raise ValueError(f"{name}: a chunk has shape {array.chunk}, found {values.shape}")
        content = encode_chunk(np.asarray(values, _KINDS[array.dtype]), Codec())
        replace_file(self._file(name, place), content, fsync=False)

    def mark(self) -> tuple[int, ...]:
        """Return numbers that are others after every finished chunk: when each array's folder changed, 0 for none."""
        return tuple(_changed(self.path / name) for name in self._arrays)

    def get(self, name: str) -> Array:
        """Return a whole array; NaN (0 of integers) where a chunk is not finished. CorruptRun for a damaged one."""
        array = self._arrays[name]
        kind = _KINDS[array.dtype]
        if prod(array.shape) * kind.itemsize > _LARGEST_ARRAY:
            raise CorruptSweep(self.path, f"{name} claims shape {array.shape}, more than a sweep holds")
        values: Array = np.full(array.shape, np.nan if kind.kind == "f" else 0, kind)
        # By the files that are there: a store's claims about its chunks could keep a loop over them busy for ever.
        for file in sorted((self.path / name).glob("c.*")):
            place = _place(file.name, array)
            if place is None:
                continue
            content = file.read_bytes()
            try:
                chunk = decode_chunk(content, array.chunk, kind, checksum=True)
            except ValueError as error:
                raise CorruptSweep(self.path, f"{name}/{file.name}: {error}") from None
            where = tuple(
                slice(number * part, min((number + 1) * part, size))
                for number, part, size in zip(place, array.chunk, array.shape, strict=True)
            )
            values[where] = chunk[tuple(slice(0, part.stop - part.start) for part in where)]
        return values

    def read(self, names: Collection[str] | None = None) -> xr.Dataset:
        """Return the arrays called `names` (None: all) in memory, with all labels and the store's attributes."""
        import xarray as xr

        labels = {name: self._labels(name) for name, node in self._nodes.items() if not _is_cells(node)}
        data = {
            name: (array.dims, self.get(name), dict(array.attributes))
            for name, array in self._arrays.items()
            if names is None or name in names
        }
        return xr.Dataset(data, coords=labels, attrs=dict(self.attributes))

    def _labels(self, name: str) -> tuple[str, Array]:
        try:
            return read_labels(self.path / name, dict(self._nodes[name]))
        except (OSError, ValueError) as error:
            raise CorruptSweep(self.path, f"{name}: {error}") from None

    def _file(self, name: str, place: Sequence[int]) -> Path:
        return self.path / name / ".".join(["c", *map(str, place)])


def _root(path: Path) -> dict[str, Any]:
    try:
        root = read_json(path / ROOT)
    except (FileNotFoundError, NotADirectoryError):
        raise NotARun(path, f"{path} is no sweep; expected a folder with {ROOT}{_if_broken(path)}") from None
    except (OSError, ValueError) as error:
        raise CorruptSweep(path, str(error)) from None
    attributes, held = root.get("attributes"), root.get("consolidated_metadata")
    nodes = held.get("metadata") if isinstance(held, dict) else None
    if not isinstance(attributes, dict) or not isinstance(nodes, dict):
        raise CorruptSweep(path, f"{ROOT} lacks attributes or consolidated metadata")
    found = attributes.get("format")
    if not isinstance(found, int) or found < 1:
        raise CorruptSweep(path, f"{ROOT} has format {found!r}; expected a number, {FORMAT} or less")
    if found > FORMAT:
        raise newer_format(path, found)
    if any(not name.isidentifier() or not isinstance(node, dict) for name, node in nodes.items()):
        raise CorruptSweep(path, f"{ROOT} names arrays that no sweep has")
    return root


def _if_broken(path: Path) -> str:
    return f". If it was one, delete it: rm -r {shlex.quote(str(path))}" if path.is_dir() else ""


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _place(file: str, array: CellArray) -> tuple[int, ...] | None:
    """Return which chunk a file is; None for a file that is none of the array's."""
    numbers = file.split(".")[1:]
    if len(numbers) != len(array.shape) or not all(number.isdecimal() for number in numbers):
        return None
    place = tuple(map(int, numbers))
    return place if all(number < count for number, count in zip(place, array.chunks, strict=True)) else None


def _is_cells(node: Mapping[str, Any]) -> bool:
    names = node.get("dimension_names")
    return node.get("data_type") != "string" and not (
        node.get("data_type") == "int64" and isinstance(names, list) and len(names) == 1
    )


def _described(path: Path, name: str, node: Mapping[str, Any]) -> CellArray:
    try:
        shape, chunk = tuple(node["shape"]), tuple(node["chunk_grid"]["configuration"]["chunk_shape"])
        dims, kind = tuple(map(str, node["dimension_names"])), DTYPES[node["data_type"]]
        sizes = (*shape, *chunk)
        whole = all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes)
        if (
            not whole
            or not len(shape) == len(chunk) == len(dims)
            or prod(chunk) * kind.itemsize > LARGEST_CHUNK
        ):
            raise ValueError("sizes and dims do not fit")
        return CellArray(
            name=name,
            dims=dims,
            shape=shape,
            chunk=chunk,
            dtype=next(short for short, known in _KINDS.items() if known == kind),
            attributes=dict(node["attributes"]),
        )
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise CorruptSweep(
            path, f"the metadata of {name} cannot be read ({type(error).__name__}: {error})"
        ) from None
