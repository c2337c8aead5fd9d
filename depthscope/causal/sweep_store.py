"""The store of a sweep: its arrays, what they are of, and that it goes on only with the same."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from depthscope.causal.batch import Batch
from depthscope.causal.identity import data_digest, weights_digest
from depthscope.causal.plan import Plan
from depthscope.causal.subject import Subject
from depthscope.store import CellArray, CellStore, Coordinate, CorruptSweep, check_same

SEQUENCES, POSITIONS = 4, 256
"""Most sequences and tokens of the first batch whose effects are kept token by token."""
_NATS = {"units": "nats/token"}


@contextlib.contextmanager
def kept_in(path: Path | None) -> Iterator[Path]:
    """Yield where a store lies: at `path`, or in a folder that goes afterwards."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "sweep.zarr"


def tokens_kept(batch: Batch) -> tuple[int, int]:
    """Return how many sequences and positions of the first batch are kept token by token."""
    sequences, positions = batch.targets.shape
    return min(SEQUENCES, sequences), min(POSITIONS, positions)


def begun(
    path: Path, subject: Subject, batches: Sequence[Batch], plan: Plan, about: Mapping[str, Any]
) -> CellStore:
    """Return the store at `path`, begun now or before; ValueError where it was begun for something else."""
    identity = {
        "kind": plan.kind,
        "mode": plan.mode,
        "design": subject.axis.design,
        "weights": weights_digest(subject.model),
        "data": data_digest(batches),
        "targets": len(plan.targets),
        "sources": len(plan.source_names),
        "batches": len(batches),
    }
    arrays = _arrays(plan, len(batches), tokens_kept(batches[0]))
    if path.exists():
        store = gone_on(path, identity)
        lost = [array.name for array in arrays if array.name not in store]
        if lost:
            raise CorruptSweep(path, f"its metadata lack {', '.join(lost)}")
    else:
        told = {"note": plan.note} if plan.note else {}
        store = CellStore.create(
            path,
            arrays,
            coordinates=(
                Coordinate(name="target", dim="target", values=plan.targets),
                Coordinate(name="target_name", dim="target", values=plan.target_names),
                Coordinate(name="source_name", dim="source", values=plan.source_names),
            ),
            attributes={
                **about,
                **told,
                "kind": plan.kind,
                "mode": plan.mode,
                "design": subject.axis.design,
                "identity": identity,
            },
        )
    if not store.has("exists", (0, 0)):
        columns = range(len(plan.source_names))
        exists = [
            [int((row, column) in plan.cells) for column in columns] for row in range(len(plan.targets))
        ]
        store.put("exists", (0, 0), np.array(exists))
    return store


def gone_on(path: Path, identity: Mapping[str, Any]) -> CellStore:
    """Return a store begun before, read whole: a damaged one is told before anything is measured.

    Raises:
        CorruptRun: a file is damaged.
        ValueError: it was begun for something else.
    """
    store = CellStore(path)
    check_same(store, identity)
    store.read()
    return store


def _arrays(plan: Plan, batches: int, tokens: tuple[int, int]) -> tuple[CellArray, ...]:
    rows, columns = len(plan.targets), len(plan.source_names)
    pair, token = ("target", "source"), ("sequence", "position")
    return (
        CellArray(
            name="loss_change",
            dims=(*pair, "batch"),
            shape=(rows, columns, batches),
            chunk=(1, columns, 1),
            attributes={
                **_NATS,
                "long_name": "loss change when cut",
                "formula": "mean loss under the intervention - mean loss of the forward as it is",
                "comment": "positive: cutting hurts",
            },
        ),
        CellArray(
            name="base_loss",
            dims=("batch",),
            shape=(batches,),
            chunk=(1,),
            attributes={**_NATS, "long_name": "loss of the forward as it is"},
        ),
        CellArray(
            name="token_change",
            dims=(*pair, *token),
            shape=(rows, columns, *tokens),
            chunk=(1, columns, *tokens),
            dtype="f4",
            attributes={**_NATS, "long_name": "loss change of each token when cut, first batch"},
        ),
        CellArray(
            name="token_loss",
            dims=token,
            shape=tokens,
            chunk=tokens,
            dtype="f4",
            attributes={**_NATS, "long_name": "loss of each token, first batch"},
        ),
        CellArray(
            name="exists",
            dims=pair,
            shape=(rows, columns),
            chunk=(rows, columns),
            dtype="i8",
            attributes={"long_name": "whether the target can be cut off from the source", "units": "1"},
        ),
    )
