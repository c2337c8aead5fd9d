"""A run opened for writing again: recovered first, so that every accepted row is in the arrays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from depthscope.quantities import DepthLayout
from depthscope.store.changed import refuse_changes
from depthscope.store.cleaning import clean, remove
from depthscope.store.codec import Codec
from depthscope.store.commit import Committer, StreamState
from depthscope.store.creation import (
    Attributes,
    attributes_of,
    chunk_rows_of,
    columns,
    create_stream,
    root_labels,
)
from depthscope.store.errors import RunError, corrupt
from depthscope.store.existing import Existing, read_existing, stored_rows
from depthscope.store.extension import Extension
from depthscope.store.files import replace_json
from depthscope.store.flush import Flusher
from depthscope.store.folder import LOGS, RANK, STORE, read_record
from depthscope.store.jsonable import jsonable
from depthscope.store.labels import is_labels
from depthscope.store.lock import WriterLock
from depthscope.store.pyramid import Pyramid
from depthscope.store.schema import Schema
from depthscope.store.segment import segment_path
from depthscope.store.specification import ArraySpec, Coordinate, StreamSpec
from depthscope.store.stream import StreamRows
from depthscope.store.tail import log_numbers
from depthscope.store.trouble import Signals, Trouble

DAMAGED = ".damaged"


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What a recovery found."""

    rows: dict[str, int]
    """Rows of each stream that were only in the log."""
    closed: bool
    """The run had been closed."""
    damaged: tuple[Path, ...]
    """Logs that were kept aside, since a part of them is no log."""
    config: Mapping[str, Any]
    """The training configuration that the run was created with."""


@dataclass(frozen=True, kw_only=True)
class Resumed:
    committer: Committer
    flusher: Flusher
    streams: dict[str, StreamRows]
    recovered: Recovered


def resume_files(
    path: Path,
    *,
    layout: DepthLayout | None,
    coordinates: Sequence[Coordinate],
    streams: Sequence[StreamSpec],
    signals: Signals,
    fsync: bool,
) -> Resumed:
    """Open the run at `path`, whose lock is held, for more rows. RunError when it cannot be, OSError from the disk.

    Interrupted at any moment, it can be done again: the log goes only when a commit has its rows.
    """
    existing = read_existing(path)
    try:
        refuse_changes(existing, layout=layout, coordinates=coordinates, streams=streams)
        return _resume(existing, coordinates=coordinates, streams=streams, signals=signals, fsync=fsync)
    except (RunError, OSError):
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise corrupt(path, f"{type(error).__name__}: {error}") from error


def _resume(
    existing: Existing,
    *,
    coordinates: Sequence[Coordinate],
    streams: Sequence[StreamSpec],
    signals: Signals,
    fsync: bool,
) -> Resumed:
    path = existing.path
    store, commit = path / RANK / STORE, existing.commit
    clean(path, commit)
    old_logs = [
        segment_path(path / RANK / LOGS, stream, number)
        for stream in commit.streams
        for number in log_numbers(path / RANK / LOGS, stream)
    ]
    committer = Committer.resume(store, commit, fsync=fsync)
    given = {spec.name: spec for spec in streams}
    attributes: Attributes = {}
    chunks: dict[str, int] = {}
    codecs: dict[str, Codec] = {}
    flusher = Flusher(
        committer,
        columns(store, chunks, codecs, attributes),
        lambda stream: Pyramid(store, stream, existing.record.layout, codecs[stream]),
        fsync=fsync,
    )
    opened: dict[str, StreamRows] = {}
    for stream in commit.streams:
        chunks[stream], codecs[stream] = existing.chunk_rows(stream), existing.codec(stream)
        arrays = existing.arrays(stream)
        known = {array.name for array in arrays}
        arrays += [a for a in (given[stream].arrays if stream in given else ()) if a.name not in known]
        for array in arrays:
            attributes[stream, array.name] = attributes_of(array)
        opened[stream] = _continue(existing, stream, arrays, chunks[stream], committer, flusher, signals)
        if stream in given:
            _set_cadence(store / stream, commit.nodes[stream], given[stream], committer)
        if opened[stream].waiting_since == 0:
            count = commit.streams[stream].rows
            committer.set_stream(stream, StreamState(rows=count, segment=opened[stream].segment))
    for spec in streams:
        if spec.name not in opened:
            chunks[spec.name], codecs[spec.name] = chunk_rows_of(spec), spec.codec
            opened[spec.name] = create_stream(
                path,
                spec,
                layout=existing.record.layout,
                at_root=root_labels(existing.record.layout, coordinates),
                committer=committer,
                attributes=attributes,
                chunk_rows=chunks[spec.name],
                signals=signals,
                fsync=fsync,
            )
            flusher.create(opened[spec.name])
    for log in existing.damaged_logs:
        shutil.copyfile(log, f"{log}{DAMAGED}")
    from_log = {name: rows.next_row - rows.committed for name, rows in opened.items()}
    for rows in opened.values():
        flusher.flush(rows, everything=True)
    committer.commit()
    remove(old_logs)
    found = Recovered(
        rows=from_log, closed=commit.closed, damaged=existing.damaged_logs, config=existing.record.config
    )
    return Resumed(committer=committer, flusher=flusher, streams=opened, recovered=found)


def _set_cadence(group: Path, node: Mapping[str, Any], spec: StreamSpec, committer: Committer) -> None:
    attributes = {**node["attributes"], "every": jsonable(spec.every)}
    if attributes != node["attributes"]:
        described = {**node, "attributes": attributes}
        committer.add(spec.name, replace_json(group / "zarr.json", described, fsync=False))


def _continue(
    existing: Existing,
    stream: str,
    arrays: list[ArraySpec],
    chunk_rows: int,
    committer: Committer,
    flusher: Flusher,
    signals: Signals,
) -> StreamRows:
    """Return a stream's rows behind those that are there, and its columns as they are on disk."""
    commit, snapshot = existing.commit, existing.snapshot
    labels = [path for path, node in commit.nodes.items() if is_labels(dict(node))]
    mine = {path.rpartition("/")[2]: commit.nodes[path] for path in labels if _is_in(path, stream)}
    sizes = {str(node["dimension_names"][0]): int(node["shape"][0]) for node in mine.values()}
    for array in arrays:
        sizes |= dict(zip(array.dims, array.shape, strict=True))
    rows = StreamRows(
        stream,
        arrays,
        chunk_rows=chunk_rows,
        tail=existing.path / RANK / LOGS,
        new_array=Extension(sizes, mine, [array.name for array in arrays]).declare,
        gap=committer.add_gap,
        signals=signals,
        start=existing.start(stream, arrays),
    )
    for field in Schema.of(stream, arrays).fields:
        stored = snapshot.stored(stream, field.name)
        if stored is not None:
            flusher.adopt(stream, field, stored.first_row)
    flusher.rows_changed_from(stream, commit.streams[stream].rows, partial(stored_rows, snapshot, stream))
    return rows


def _is_in(path: str, stream: str) -> bool:
    return path.rpartition("/")[0] in ("", stream)


def recover_run(path: str | os.PathLike[str]) -> Recovered:
    """Bring every accepted row of a run that nobody writes into its arrays, and remove what no commit names.

    Its status stays what it is. RunLocked while a recorder writes it, other RunErrors when it is damaged.
    """
    folder = Path(path).absolute()
    read_record(folder)
    lock = WriterLock(folder / RANK, folder)
    try:
        existing = read_existing(folder)
        if existing.commit.closed:
            clean(folder, existing.commit)
            return Recovered(rows={}, closed=True, damaged=(), config=existing.record.config)
        lock.claim()
        signals = Signals(full=lambda: None, trouble=Trouble(folder))
        opened = resume_files(folder, layout=None, coordinates=(), streams=(), signals=signals, fsync=True)
        for rows in opened.streams.values():
            rows.close_log(delete=False)
        return opened.recovered
    finally:
        lock.leave()
