"""Recording changes nothing: losses and parameters are bitwise those of the loop without it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from depthscope.recording import Recorder
from tests.recording.loops import DESIGNS, batches, build, optimizer_of, train

STEPS = 30


def run(design: str, path: Path | None) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = build(design)
    draw, optimizer = batches(), optimizer_of(model)
    if path is None:
        losses = train(model, STEPS, draw, optimizer)
    else:
        with Recorder(model, path, optimizer=optimizer, every={"fast": 1, "slow": 3}) as recorder:
            losses = train(model, STEPS, draw, optimizer, lambda loss: recorder.step(loss=loss))
    return losses, model.state_dict()


@pytest.mark.parametrize("design", [*DESIGNS, "foreign"])
def test_thirty_steps_are_bitwise_the_same(design: str, tmp_path: Path) -> None:
    losses, parameters = run(design, None)
    recorded_losses, recorded_parameters = run(design, tmp_path / "run")
    assert recorded_losses == losses
    for name, value in parameters.items():
        assert torch.equal(value, recorded_parameters[name]), name


def test_dropout_draws_the_same_numbers(tmp_path: Path) -> None:
    """Finding the depth axis runs one more forward; the generator must not notice."""

    def losses(record: bool) -> list[float]:
        model = build("foreign")
        for stage in model.tower:
            stage.beta.append(nn.Dropout(0.3))
        draw, optimizer = batches(), optimizer_of(model)
        torch.manual_seed(5)
        if not record:
            return train(model, 5, draw, optimizer)
        with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
            return train(model, 5, draw, optimizer, lambda loss: recorder.step(loss=loss))

    assert losses(record=True) == losses(record=False)
