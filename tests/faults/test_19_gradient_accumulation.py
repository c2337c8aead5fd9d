"""Fault 19: micro-batches of one optimizer step are one row, which is that of the whole batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, same, truth, without_updates
from tests.ranks.expected import compare, row_of
from tests.recording.loops import BATCH, TIME, build, loss_of
from tests.recording.rows import spy_on_rows, trained


@pytest.mark.parametrize("design", ["prenorm", "block-attnres:S=3", "hires:B=2,n=2"])
def test_micro_batches_are_one_row_equal_to_the_whole_batch(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    expected = row_of(model, inputs, targets)
    model.zero_grad()
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        total = torch.zeros(())
        for row in range(BATCH):
            loss = loss_of(model, inputs[row : row + 1], targets[row : row + 1]) / BATCH
            loss.backward()
            total += loss.detach()
        optimizer.step()
        recorder.step(loss=total)
    compare(rows["fast"][0] | rows.get("slow", {}).get(0, {}), expected, tolerance=2e-5)


def test_every_optimizer_step_has_a_row_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three micro-batches, then one: no row holds anything of the other's."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    whole, last = truth(model, inputs, targets), truth(model, inputs[-1:], targets[-1:])
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        for parts in (range(BATCH), range(BATCH - 1, BATCH)):
            for row in parts:
                loss = loss_of(model, inputs[row : row + 1], targets[row : row + 1]) / len(parts)
                loss.backward()
            optimizer.step()
            recorder.step()
            optimizer.zero_grad()
    same(rows["fast"][0], whole, *ALL)
    same(rows["fast"][1], last, *ALL)
    run = open_run(tmp_path / "run")
    assert run["loss_tokens"].values.tolist() == [BATCH * TIME, TIME]
    assert run["tokens"].values.tolist() == [0, BATCH * TIME]
