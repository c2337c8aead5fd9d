"""A run as its last writer left it, read before anything in it is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.codec import Codec
from depthscope.store.column import stream_chunk_rows
from depthscope.store.commit import ROOT, Commit, read_commit
from depthscope.store.errors import FORMAT, RunError, corrupt, newer_format
from depthscope.store.folder import LOGS, RANK, STORE, RunRecord, read_record
from depthscope.store.rows import RowBuffer, Start
from depthscope.store.schema import Schema
from depthscope.store.snapshot import Snapshot
from depthscope.store.specification import ArraySpec
from depthscope.store.tail import TailIndex, log_numbers

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Existing:
    """A run that nobody writes at the moment."""

    path: Path
    record: RunRecord
    snapshot: Snapshot
    damaged_logs: tuple[Path, ...]
    """Logs with bytes in them that are no frame, other than an end that was cut short, or with rows out of place."""

    @property
    def commit(self) -> Commit:
        return self.snapshot.commit

    def arrays(self, stream: str) -> list[ArraySpec]:
        """Return the arrays of a stream, those of which only the log knows included."""
        return [
            ArraySpec(
                name=array.name,
                dims=array.dims,
                shape=array.shape,
                dtype=f"{array.dtype.kind}{array.dtype.itemsize}",
                attributes=array.attributes,
                mantissa_bits=array.attributes.get("mantissa_bits"),
            )
            for array in self.snapshot.arrays(stream).values()
            if array.name != "wall_time"
        ]

    def chunk_rows(self, stream: str) -> int:
        return stream_chunk_rows(self.commit.nodes[f"{stream}/step"])

    def codec(self, stream: str) -> Codec:
        _, packed, *checksum = self.commit.nodes[f"{stream}/step"]["codecs"]
        given = packed["configuration"]
        return Codec(name=given["cname"], level=given["clevel"], checksum=bool(checksum))

    def start(self, stream: str, arrays: list[ArraySpec]) -> Start:
        """Return where rows of a stream go on: behind all that are there, in a log segment of its own."""
        number = max([self.commit.streams[stream].segment, *log_numbers(self.path / RANK / LOGS, stream)]) + 1
        return start_behind(
            self.snapshot,
            Schema.of(stream, arrays),
            self.snapshot.rows(stream),
            chunk_rows=self.chunk_rows(stream),
            segment=number,
            oldest_segment=number,
        )


def read_existing(path: Path) -> Existing:
    """Read the run at `path`; RunError says what is wrong with it."""
    record, rank = read_record(path), path / RANK
    tails = TailIndex(rank / LOGS)
    try:
        commit = read_commit(rank / STORE, verify=True)
        if commit.format > FORMAT:
            raise newer_format(path, commit.format)
        if commit.run != record.id:
            raise ValueError(f"run.json is of run {record.id}, {STORE} of run {commit.run}")
        # The run may have been copied without its logs.
        pieces = {} if commit.closed else tails.refresh(commit, tails.files(), incomplete=True)
    except FileNotFoundError as error:
        raise corrupt(path, f"{RANK}/{STORE}/{ROOT} is missing ({error.filename})") from None
    except RunError:
        raise
    except ValueError as error:
        raise corrupt(path, str(error)) from None
    snapshot = Snapshot(store=rank / STORE, commit=commit, tails=pieces)
    return Existing(path=path, record=record, snapshot=snapshot, damaged_logs=tails.damaged())


def start_behind(
    snapshot: Snapshot, schema: Schema, rows: int, *, chunk_rows: int, segment: int, oldest_segment: int
) -> Start:
    """Return a start behind the first `rows` rows, with those of them in memory that no whole chunk holds."""
    stream, recorded = schema.stream, snapshot.arrays(schema.stream)
    committed = min(rows, snapshot.commit.streams[stream].rows)
    steps = snapshot.steps(stream)
    buffers = []
    first = committed // chunk_rows * chunk_rows
    for begin in range(first, max(rows, first + 1), chunk_rows):
        end = min(begin + chunk_rows, rows)
        buffer = RowBuffer(schema, start=begin, capacity=chunk_rows, first_segment=segment)
        columns = {"step": steps[begin:end]}
        for field in schema.fields[1:]:
            if field.name in recorded:
                columns[field.name] = snapshot.read(recorded[field.name], begin, end)
        buffer.fill(end - begin, columns)
        buffers.append(buffer)
    return Start(
        buffers=tuple(buffers),
        rows=rows,
        committed=committed,
        segment=segment,
        oldest_segment=oldest_segment,
        last_step=int(steps[rows - 1]) if rows else None,
    )


def stored_rows(snapshot: Snapshot, stream: str, name: str, start: int, stop: int) -> Array:
    """Return rows of an array, ``step`` included; NaN where it has none."""
    if name == "step":
        return snapshot.steps(stream)[start:stop]
    found = snapshot.arrays(stream).get(name)
    if found is None:
        return np.full(stop - start, np.nan)
    return snapshot.read(found, start, stop)
