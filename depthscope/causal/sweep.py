"""A table of interventions measured on batches: what each does to the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from depthscope.causal.batch import Batch
from depthscope.causal.error import CausalError
from depthscope.causal.intervention import NOTHING
from depthscope.causal.memory import interventions_at_once
from depthscope.causal.plan import Plan
from depthscope.causal.rows import losses_under
from depthscope.causal.subject import Subject
from depthscope.causal.sweep_store import begun, kept_in
from depthscope.causal.values import Values
from depthscope.store import CellStore, open_sweep

Advance = Callable[[int, int], None]
"""Called with the rows finished so far, those of an earlier start included, and all rows."""


def sweep(
    subject: Subject,
    batches: Sequence[Batch],
    plan: Plan,
    *,
    path: Path | None = None,
    about: Mapping[str, Any] | None = None,
    advance: Advance = lambda finished, total: None,
) -> xr.Dataset:
    """Measure every cell of a plan on every batch; return the store's contents (see `depthscope.store.Sweep.read`).

    ``loss_change`` (target, source, batch) is the mean loss of the counted tokens under the intervention minus that of
    the forward as it is, in nats a token: positive where the cut hurts. ``token_change`` (target, source, sequence,
    position) is the same token by token on the first sequences of the first batch.

    Args:
        subject: the model.
        batches: as many as the interval should have values; their shapes may differ, except when resampling.
        plan: what is measured.
        path: the store; begun there or gone on with: what is finished is not measured again. None keeps none.
        about: attributes of the store: run, checkpoint, step.
        advance: told how far it is.

    Raises:
        CausalError: no batch fits into memory, or resampling has only one batch.
        ValueError: the store at `path` was begun for another model, data or plan.
    """
    if plan.mode == "resample" and len(batches) < 2:
        raise CausalError("mode 'resample' takes values from another batch: give two batches or more")
    with kept_in(path) as folder:
        store = begun(folder, subject, batches, plan, about or {})
        _fill(subject, batches, plan, store, advance)
        return open_sweep(folder).read()


def _fill(subject: Subject, batches: Sequence[Batch], plan: Plan, store: CellStore, advance: Advance) -> None:
    rows = [row for row in range(len(plan.targets)) if plan.row(row)]
    total = len(rows) * len(batches)
    finished = sum(store.has("loss_change", (row, 0, each)) for row in rows for each in range(len(batches)))
    advance(finished, total)
    for number, batch in enumerate(batches):
        left = [row for row in rows if not store.has("loss_change", (row, 0, number))]
        if not left:
            continue
        at_once = interventions_at_once(subject, batch)
        base = losses_under(subject, batch, [NOTHING])[0]
        store.put("base_loss", (number,), np.array([_mean(base)]))
        if number == 0:
            store.put("token_loss", (0, 0), _tokens(store, base))
        for row in left:
            donor = _donor(subject, batches, number, plan, row)
            _measure(subject, batch, number, plan, row, donor, at_once, base, store)
            finished += 1
            advance(finished, total)


def _measure(
    subject: Subject,
    batch: Batch,
    number: int,
    plan: Plan,
    row: int,
    donor: Values | None,
    at_once: int,
    base: Tensor,
    store: CellStore,
) -> None:
    columns = plan.row(row)
    change = np.full((1, len(plan.source_names), 1), np.nan)
    tokens = np.full(store.array("token_change").chunk, np.nan)
    for start in range(0, len(columns), at_once):
        part = columns[start : start + at_once]
        losses = losses_under(subject, batch, [plan.cells[row, column](donor) for column in part])
        for column, each in zip(part, losses, strict=True):
            change[0, column, 0] = _mean(each - base)
            tokens[0, column] = _tokens(store, each - base)
    if number == 0:
        store.put("token_change", (row, 0, 0, 0), tokens)
    store.put("loss_change", (row, 0, number), change)  # last: from now on the row is finished


def _donor(subject: Subject, batches: Sequence[Batch], number: int, plan: Plan, row: int) -> Values | None:
    if plan.mode != "resample":
        return None
    other = batches[(number + 1) % len(batches)]
    return subject.look(other.args, other.kwargs, plan.needs[row])[1]


def _mean(losses: Tensor) -> float:
    return float(torch.nanmean(losses))


def _tokens(store: CellStore, losses: Tensor) -> np.ndarray[Any, Any]:
    sequences, positions = store.array("token_loss").shape
    kept = np.full((sequences, positions), np.nan)
    part = losses[:sequences, :positions].numpy(force=True)
    kept[: part.shape[0], : part.shape[1]] = part
    return kept
