"""A new run on disk: everything a reader needs, then the first commit, then ``run.json``."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from depthscope.quantities import DepthLayout
from depthscope.store.codec import Codec
from depthscope.store.column import Column, chunk_rows
from depthscope.store.commit import Committer
from depthscope.store.coordinates import root_coordinates, stream_coordinates
from depthscope.store.extension import Extension, default_attributes
from depthscope.store.files import replace_json
from depthscope.store.flush import Flusher
from depthscope.store.folder import LOGS, RANK, RECORD, STORE, write_record
from depthscope.store.jsonable import jsonable
from depthscope.store.labels import write_labels
from depthscope.store.lock import WriterLock
from depthscope.store.metadata import group_metadata
from depthscope.store.pyramid import Pyramid
from depthscope.store.schema import Field
from depthscope.store.specification import RESERVED, ArraySpec, Coordinate, StreamSpec, array_key
from depthscope.store.stream import StreamRows
from depthscope.store.tail import rows_in
from depthscope.store.trouble import Signals

_BUFFER_BYTES = 32 * 2**20
Attributes = dict[tuple[str, str], Mapping[str, Any]]
"""Those of each array by (stream, name)."""


def refuse_existing_rows(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError when a run with rows is at `path`; the message names the ways out."""
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; record to a path that does not exist yet")
    found = rows_in(folder / RANK)
    if found:
        raise FileExistsError(
            f"{folder} already holds a run ({found}); record to another path, go on with that run (resume='auto'), "
            f"or delete it: rm -r {folder}"
        )


def holds_rows(path: str | os.PathLike[str]) -> bool:
    """Tell whether a run with rows is at `path`, to go on with; one without rows is replaced by a new one."""
    return bool(rows_in(Path(path).absolute() / RANK))


def refuse_writers(path: str | os.PathLike[str]) -> None:
    """Raise RunLocked when another recorder writes the run at `path` at this moment."""
    folder = Path(path).absolute()
    if (folder / RANK).is_dir():
        WriterLock(folder / RANK, folder).release()


def claim(path: Path) -> WriterLock:
    """Take the folder for a new run.

    FileExistsError when rows are there already, RunLocked when another recorder writes them.
    """
    refuse_existing_rows(path)
    rank = path / RANK
    rank.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(rank, path)
    try:
        refuse_existing_rows(path)
        (path / RECORD).unlink(missing_ok=True)
        for folder in (rank / STORE, rank / LOGS):
            if folder.exists():
                shutil.rmtree(folder)
        lock.claim()
    except BaseException:
        lock.release()
        raise
    return lock


def create_files(
    path: Path,
    *,
    name: str,
    config: Mapping[str, Any],
    tags: Sequence[str],
    layout: DepthLayout,
    coordinates: Sequence[Coordinate],
    streams: Sequence[StreamSpec],
    versions: Mapping[str, str],
    signals: Signals,
    fsync: bool,
) -> tuple[Committer, Flusher, dict[str, StreamRows]]:
    """Write a run without rows into the claimed folder `path`."""
    id, store, tail = uuid.uuid4().hex[:12], path / RANK / STORE, path / RANK / LOGS
    for folder in (store, tail):
        folder.mkdir()
    at_root = root_labels(layout, coordinates)
    committer = Committer(store, run=id, attributes=_group_attributes(at_root), fsync=fsync)
    for entry in at_root:
        committer.add(entry.name, write_labels(store / entry.name, entry, fsync=fsync))
    attributes: Attributes = {}
    chunks: dict[str, int] = {}
    codecs: dict[str, Codec] = {}
    flusher = Flusher(
        committer,
        columns(store, chunks, codecs, attributes),
        lambda stream: Pyramid(store, stream, layout, codecs[stream]),
        fsync=fsync,
    )
    rows: dict[str, StreamRows] = {}
    for spec in streams:
        if spec.name in rows or spec.name in {entry.name for entry in at_root}:
            raise ValueError(f"the name {spec.name!r} is taken twice among streams and coordinates")
        chunks[spec.name], codecs[spec.name] = chunk_rows_of(spec), spec.codec
        rows[spec.name] = create_stream(
            path,
            spec,
            layout=layout,
            at_root=at_root,
            committer=committer,
            attributes=attributes,
            chunk_rows=chunks[spec.name],
            signals=signals,
            fsync=fsync,
        )
        flusher.create(rows[spec.name])
    committer.commit()
    write_record(
        path,
        id=id,
        name=name,
        config=config,
        tags=tags,
        layout=layout,
        versions=versions,
        world_size=1,
        fsync=fsync,
    )
    return committer, flusher, rows


def create_stream(
    path: Path,
    spec: StreamSpec,
    *,
    layout: DepthLayout,
    at_root: Sequence[Coordinate],
    committer: Committer,
    attributes: Attributes,
    chunk_rows: int,
    signals: Signals,
    fsync: bool,
) -> StreamRows:
    """Write a stream's group and labels into the next commit; its arrays come with `Flusher.create`."""
    store, tail = path / RANK / STORE, path / RANK / LOGS
    root_sizes = _sizes("the run", [(entry.dim, len(entry.values), entry.name) for entry in at_root])
    dims = [dim for array in spec.arrays for dim in array.dims]
    labels = _merged(stream_coordinates(layout, dims), spec.coordinates)
    sizes = _sizes(
        f"stream {spec.name}",
        [
            *((dim, size, dim) for dim, size in root_sizes.items()),
            *((entry.dim, len(entry.values), entry.name) for entry in labels),
            *(
                (dim, n, array.name)
                for array in spec.arrays
                for dim, n in zip(array.dims, array.shape, strict=True)
            ),
        ],
    )
    group = store / spec.name
    group.mkdir(exist_ok=True)
    for entry in labels:
        committer.add(f"{spec.name}/{entry.name}", write_labels(group / entry.name, entry, fsync=fsync))
    described = group_metadata(
        {**_group_attributes(labels, "wall_time"), "every": jsonable(spec.every)},
    )
    committer.add(spec.name, replace_json(group / "zarr.json", described, fsync=fsync))
    named = [entry.name for entry in (*at_root, *labels)]
    for array in spec.arrays:
        if array.name in sizes or array.name in named:
            raise ValueError(
                f"stream {spec.name}: {array.name!r} is a dim or a coordinate; choose another name"
            )
        attributes[spec.name, array.name] = attributes_of(array)
    return StreamRows(
        spec.name,
        list(spec.arrays),
        chunk_rows=chunk_rows,
        tail=tail,
        new_array=Extension(sizes, named, [array.name for array in spec.arrays]).declare,
        gap=committer.add_gap,
        signals=signals,
    )


def attributes_of(array: ArraySpec) -> dict[str, Any]:
    """Return what is written beside an array."""
    kept = {} if array.mantissa_bits is None else {"mantissa_bits": array.mantissa_bits}
    return {**(array.attributes or default_attributes(array.name)), **kept}


def chunk_rows_of(spec: StreamSpec) -> int:
    if spec.chunk_rows is not None:
        return spec.chunk_rows
    row, rows = sum(array.row_bytes for array in spec.arrays), 1024
    while rows > 8 and rows * row > _BUFFER_BYTES:
        rows //= 2
    return rows


def root_labels(layout: DepthLayout, given: Iterable[Coordinate]) -> list[Coordinate]:
    """Return the coordinates of the root group; ValueError when two sizes of one dim meet."""
    labels = _merged(root_coordinates(layout), given)
    _sizes("the run", [(entry.dim, len(entry.values), entry.name) for entry in labels])
    return labels


def _merged(known: Iterable[Coordinate], given: Iterable[Coordinate]) -> list[Coordinate]:
    """Return known coordinates and given ones; a given one of the same name wins."""
    by_name = {entry.name: entry for entry in (*known, *given)}
    for entry in by_name.values():
        if entry.name in RESERVED or array_key(entry.name) != entry.name or not len(entry.values):
            raise ValueError(f"coordinate {entry.name!r} over {entry.dim!r}: no usable name, or no values")
    return list(by_name.values())


def _sizes(where: str, uses: Iterable[tuple[str, int, str]]) -> dict[str, int]:
    """Return the size of each dim; xarray refuses a group in which one dim has two."""
    sizes: dict[str, tuple[int, str]] = {}
    for dim, size, user in uses:
        known, first = sizes.setdefault(dim, (size, user))
        if known != size:
            raise ValueError(f"{where}: dim {dim!r} has size {known} in {first!r} and {size} in {user!r}")
    return {dim: size for dim, (size, _) in sizes.items()}


def _group_attributes(labels: Iterable[Coordinate], *more: str) -> dict[str, Any]:
    names = [*more, *(entry.name for entry in labels if entry.name != entry.dim)]
    return {"coordinates": " ".join(names)} if names else {}


def columns(
    store: Path, chunks: Mapping[str, int], codecs: Mapping[str, Codec], given: Attributes
) -> Callable[[str, Field, int], Column]:
    """Return what makes a column of a stream with so many rows a chunk, its codec and the given attributes."""

    def new_column(stream: str, field: Field, first_row: int) -> Column:
        rows = chunk_rows(field, chunks[stream])
        return Column(
            store / stream / field.key,
            field,
            rows=rows,
            nested=rows <= chunks[stream],
            attributes=jsonable(given.get((stream, field.name)) or default_attributes(field.name)),
            first_row=first_row,
            codec=codecs[stream],
        )

    return new_column
