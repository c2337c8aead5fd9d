"""Fault 12: a recorded model is saved, pickled and sent to other processes; what comes out records nothing."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording.loops import build, loss_of
from tests.recording.rows import spy_on_rows, trained


def by_pickle(model: nn.Module) -> Any:
    return pickle.loads(pickle.dumps(model))


def by_torch_save(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [by_pickle, by_torch_save])
@pytest.mark.parametrize("design", ["foreign", "block-attnres:S=3"])
def test_the_copy_computes_the_same_and_records_nothing(
    design: str, copied: Callable[[nn.Module], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
        loss = loss_of(model, inputs, targets)  # between forward and backward, while the step is under way
        twin = copied(model)
        assert loss_of(twin, inputs, targets).item() == loss.item()
        loss_of(twin, inputs * 0, targets).backward()
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss)
    assert list(rows["fast"]) == [0, 1]
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)


def train_elsewhere(model: nn.Module, inputs: Tensor, targets: Tensor, answer: Any) -> None:
    optimizer = without_updates(model)
    loss = loss_of(model, inputs, targets)
    loss.backward()
    optimizer.step()
    answer.send(loss.item())


def test_a_spawned_process_gets_an_inert_model(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("prenorm"))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    spawn = get_context("spawn")
    here, there = spawn.Pipe()
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
        process = spawn.Process(target=train_elsewhere, args=(model, inputs, targets, there))
        process.start()
        assert here.recv() == pytest.approx(expected["loss"].item())
        process.join()
        assert process.exitcode == 0
        one_step(model, optimizer, recorder, inputs, targets)
    assert open_run(tmp_path / "run").steps("fast").tolist() == [0, 1]
