"""Fault 9: evaluation and sanity passes between training forwards, with and without gradients."""

from __future__ import annotations

from collections.abc import Callable
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


def in_evaluation_mode(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """With gradients, which go away again: a sensitivity study, say."""
    model.eval()
    kept = [parameter.grad for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    loss_of(model, inputs, targets).backward()
    for parameter, gradient in zip(model.parameters(), kept, strict=True):
        parameter.grad = gradient
    model.train()


def without_gradients(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    with torch.no_grad():
        model(inputs)


def in_inference_mode(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    model.eval()
    with torch.inference_mode():
        model(inputs)
    model.train()


PASSES = (in_evaluation_mode, without_gradients, in_inference_mode)


@pytest.mark.parametrize("design", ["foreign", "block-attnres:S=3"])
@pytest.mark.parametrize("evaluate", PASSES)
def test_a_pass_in_between_changes_no_number_and_no_step(
    evaluate: Callable[[nn.Module, Tensor, Tensor], None],
    design: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        for _ in range(2):
            evaluate(model, inputs * 0, targets)
            loss = loss_of(model, inputs, targets)
            evaluate(model, inputs * 0, targets)
            loss.backward()
            evaluate(model, inputs * 0, targets)
            optimizer.step()
            recorder.step(loss=loss)
            optimizer.zero_grad()
        evaluate(model, inputs * 0, targets)
    assert list(rows["fast"]) == [0, 1]
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)
        assert rows["fast"][step]["loss_tokens"] == inputs.numel()


def test_the_losses_of_an_evaluation_have_a_stream_of_their_own(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("prenorm"))
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        recorder.evaluation(validation=1.5, other=torch.tensor(2.5))
        one_step(model, optimizer, recorder, inputs, targets)
        recorder.evaluation(validation=1.25)
    run: Any = open_run(tmp_path / "run")
    assert run["validation"].values.tolist() == [1.5, 1.25]
    assert run["validation"].step.values.tolist() == [0, 1]
    assert run["other"].values[0] == 2.5
    assert run["state_rms"].step.values.tolist() == [0]
