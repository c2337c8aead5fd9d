"""Fault 13: a deep copy, an average of the weights, or a second model of the class never writes into the first's row."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.compiling import FROM_TORCH_ITSELF, each_block, eager, whole
from tests.faults.truth import ALL, FORWARD, GRADIENTS, PARAMETERS, same, truth, without_updates
from tests.recording.loops import ForeignGPT, loss_of
from tests.recording.rows import spy_on_rows, trained

pytestmark = FROM_TORCH_ITSELF
STAGES = 2


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def deep_copy(model: Any) -> Any:
    return copy.deepcopy(model)


def average(model: Any) -> Any:
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)).module


def second_of_the_class(model: Any) -> Any:
    return ForeignGPT(STAGES)


def record_both(model: Any, twin: Any, way: Any, path: Path, batch: Any, steps: int) -> Recorder:
    """Record `model`, while `twin` trains on other tokens before and after each of its backwards."""
    inputs, targets = batch
    optimizer = without_updates(model)
    with Recorder(model, path, optimizer=optimizer, example=inputs) as recorder:
        called, called_twin = way(model), way(twin(model))

        def train_the_other() -> None:
            called_twin.train()
            loss_of(called_twin, inputs * 0, targets).backward()

        for _ in range(steps):
            loss = loss_of(called, inputs, targets)
            train_the_other()
            loss.backward()
            train_the_other()
            optimizer.step()
            recorder.step(loss=loss, tokens=inputs.numel())
            optimizer.zero_grad()
    return recorder


@pytest.mark.parametrize("way", [eager, whole, each_block])
@pytest.mark.parametrize("twin", [deep_copy, average, second_of_the_class])
def test_another_model_that_trains_in_between_changes_no_number(
    twin: Any, way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, *batch = trained(ForeignGPT(STAGES))
    expected = truth(model, *batch)
    # Else dynamo may run the second model's code, without hooks, for the first as well: see below.
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=twin is not second_of_the_class):
        record_both(model, twin, way, tmp_path / "run", batch, steps=2)
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)


def test_where_dynamo_takes_the_seconds_code_for_the_first_rows_are_missing_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, *batch = trained(ForeignGPT(STAGES))
    expected = truth(model, *batch)
    with pytest.warns(UserWarning, match=r"stopped firing.*skip_nnmodule_hook_guards = False"):
        record_both(model, second_of_the_class, each_block, tmp_path / "run", batch, steps=5)
    same(rows["fast"][0], expected, *ALL)
    for step in range(1, 5):
        row = rows["fast"][step]
        assert np.isnan(row["write_rms"]).all()
        for name in (*FORWARD, *GRADIENTS):  # the last state is seen behind the blocks
            same({name: np.where(np.isnan(row[name]), expected[name], row[name])}, expected, name)
        same(row, expected, *PARAMETERS)
    assert "skip_nnmodule_hook_guards" in str(open_run(tmp_path / "run").missing)
