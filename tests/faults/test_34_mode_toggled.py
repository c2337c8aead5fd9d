"""Fault 34: model.train() and model.eval() inside the step: forwards in training mode count, others do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from tests.faults.truth import ALL, same, truth, without_updates
from tests.recording.loops import BATCH, TIME, build, loss_of
from tests.recording.rows import spy_on_rows, trained

# Of torch itself, also without a recorder: for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)


@pytest.mark.parametrize("way", ["eager", "blocks", "whole"])
def test_only_the_forward_in_training_mode_counts(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluation with gradients enabled before the forward, between it and the backward, and after the update."""
    torch._dynamo.reset()
    rows = spy_on_rows(monkeypatch)
    model: Any
    model, inputs, targets = trained(build("foreign"))
    expected = truth(model, inputs, targets)
    optimizer = without_updates(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs)
    called: nn.Module = model
    if way == "whole":
        called = torch.compile(model, fullgraph=True, backend="aot_eager")  # type: ignore[assignment]
    if way == "blocks":
        for stage in model.tower:
            stage.compile(fullgraph=True, backend="aot_eager")

    def evaluate() -> Tensor:
        model.eval()
        return loss_of(called, inputs * 0, targets)

    for _ in range(2):
        before = evaluate()
        model.train()
        loss = loss_of(called, inputs, targets)
        evaluate()
        loss.backward()
        torch.autograd.grad(evaluate(), list(model.parameters()))  # of which nothing is kept
        model.train()
        optimizer.step()
        evaluate()
        recorder.step(loss=loss.detach(), tokens=BATCH * TIME)
        optimizer.zero_grad()
        del before
    model.train()
    recorder.close()
    for step in range(2):
        same(rows["fast"][step], expected, *ALL, "loss")


def test_parts_in_evaluation_mode_are_recorded_as_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen part is often put into evaluation mode: the model as a whole still trains."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    for stage in model.tower:
        stage.beta.append(nn.Dropout(0.5))
    model.tower[1].eval()
    model.tower[2].eval()
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        torch.manual_seed(3)
        loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
    torch.manual_seed(3)
    expected = truth(model, inputs, targets)
    same(rows["fast"][0], expected, *ALL, "loss")
    assert model.tower[0].training
    assert not model.tower[1].training
