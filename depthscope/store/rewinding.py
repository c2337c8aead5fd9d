"""A run taken back to an earlier step: one commit, and what lay beyond stays readable as an earlier attempt."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from depthscope.store.cleaning import chunks, chunks_beyond, remove
from depthscope.store.commit import ROOT, Commit, Committer, read_commit
from depthscope.store.existing import start_behind, stored_rows
from depthscope.store.files import PARTIAL, read_json, replace_json, sync_folder
from depthscope.store.flush import Flusher
from depthscope.store.folder import KEPT, STORE, attempt_folder
from depthscope.store.snapshot import Snapshot
from depthscope.store.stream import StreamRows

_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP)


def rewind(
    rank: Path,
    step: int,
    *,
    committer: Committer,
    flusher: Flusher,
    streams: Mapping[str, StreamRows],
    closed: bool,
    fsync: bool,
) -> bool:
    """Keep rows with a smaller step than `step`; False when there are no others.

    All rows are flushed, and nobody appends meanwhile. `closed` says whether the attempt that ends had been
    closed. OSError leaves the run as it was.
    """
    store = rank / STORE
    commit = read_commit(store)
    snapshot = Snapshot(store=store, commit=commit, tails={})
    keep = {name: int(np.searchsorted(snapshot.steps(name), step, "left")) for name in streams}
    if all(keep[name] == commit.streams[name].rows for name in streams):
        return False
    _keep_attempt(rank, commit, keep, closed=closed, fsync=fsync)
    starts = {
        name: start_behind(
            snapshot,
            rows.schema,
            keep[name],
            chunk_rows=rows.chunk_rows,
            segment=rows.segment + 1,
            oldest_segment=rows.oldest_segment,
        )
        for name, rows in streams.items()
    }
    logs = {}
    try:
        for name, rows in streams.items():
            logs[name] = rows.open_log(starts[name])
        with committer.all_or_nothing():
            committer.rewind(row=keep[next(iter(streams))], step=step)
            for name, rows in streams.items():
                flusher.describe(rows, keep[name], logs[name].number)
            committer.commit()
    except BaseException:
        for log in logs.values():
            log.close()
        remove([log.path for log in logs.values()])
        raise
    for name, rows in streams.items():
        rows.restart(starts[name], logs[name])
        flusher.rows_changed_from(name, keep[name], partial(stored_rows, snapshot, name))
        rows.delete_segments(rows.segment)
    for path, node in read_commit(store).nodes.items():
        remove(chunks_beyond(store / path, node))
    return True


def _keep_attempt(rank: Path, commit: Commit, keep: Mapping[str, int], *, closed: bool, fsync: bool) -> None:
    """Give the chunks that are about to change or go a second name, in the folder of the attempt that ends.

    Chunks are only ever replaced as whole files, so a link keeps what it had.
    """
    target = attempt_folder(rank, len(commit.rewinds) + 1)
    partial_folder = target.with_name(target.name + PARTIAL)
    for folder in (target, partial_folder):
        if folder.exists():  # of a rewind that did not come to its commit
            shutil.rmtree(folder)
    partial_folder.mkdir(parents=True)
    kept: dict[str, int] = {}
    for path, node in commit.nodes.items():
        stream = path.partition("/")[0]
        if node.get("node_type") != "array" or "/" not in path:
            continue
        size = int(node["chunk_grid"]["configuration"]["chunk_shape"][0])
        if stream in keep and not _has_rows(node):
            continue  # labels never change
        first = kept[path] = keep[stream] // size if stream in keep else 0
        for number, chunk in chunks(rank / STORE / path):
            if number >= first:
                (partial_folder / path).mkdir(parents=True, exist_ok=True)
                _link(chunk, partial_folder / path / chunk.name)
    replace_json(partial_folder / KEPT, kept, fsync=fsync)
    root = read_json(rank / STORE / ROOT)
    root["attributes"]["depthscope"]["closed"] = closed
    replace_json(partial_folder / ROOT, root, fsync=fsync)
    os.replace(partial_folder, target)
    if fsync:
        sync_folder(target.parent)


def _has_rows(node: Mapping[str, object]) -> bool:
    dims = node.get("dimension_names")
    return isinstance(dims, list) and dims[:1] == ["step"]


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)
