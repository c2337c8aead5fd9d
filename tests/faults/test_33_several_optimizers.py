"""Fault 33: several optimizers, each with some of the parameters: all of them are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from depthscope.recording import Recorder
from tests.faults.truth import GRADIENTS, PARAMETERS, same, truth
from tests.recording.loops import build, loss_of
from tests.recording.rows import spy_on_rows, trained

EXAMPLE = torch.zeros(1, 4, dtype=torch.int64)


def matrices_apart(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the sublayers, AdamW for the rest, as loops with Muon do."""
    hidden = [p for layer in model.layers for p in layer.parameters() if p.dim() == 2]
    inside = {id(parameter) for parameter in hidden}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in inside]
    return [torch.optim.Muon(hidden, lr=lr), torch.optim.AdamW(rest, lr=lr / 10)]


@pytest.mark.parametrize("given", [list, tuple])
def test_muon_and_adamw(given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step's gradients are taken at the weights of before it, so two steps that learn tell them apart."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    optimizers = matrices_apart(model, lr=0.02)
    expected = []
    with Recorder(model, tmp_path / "run", optimizer=given(optimizers)) as recorder:
        for _ in range(2):
            expected.append(truth(build_like(model), inputs, targets))
            loss = loss_of(model, inputs, targets)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            recorder.step(loss=loss.detach())
            for optimizer in optimizers:
                optimizer.zero_grad()
    for step in range(2):
        same(rows["fast"][step], expected[step], *PARAMETERS, *GRADIENTS, "loss")
        assert rows["fast"][step]["learning_rate"] == 0.02
    assert abs(expected[1]["grad_norm"] / expected[0]["grad_norm"] - 1) > 0.01


def build_like(model: nn.Module) -> nn.Module:
    """Return a model with the same weights and without hooks."""
    twin = build("prenorm")
    twin.load_state_dict(model.state_dict())
    return twin


def test_what_no_optimizer_has_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the one for the matrices is given: its gradients are known, those of the rest are not guessed."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    optimizers = matrices_apart(model, lr=0.0)
    with pytest.warns(UserWarning, match="the optimizer holds") as warned:
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizers[0])
    assert len(warned) == 1
    words = str(warned[0].message)
    # 31 parameters, 20 of them matrices inside the eight layers; three of the other eleven are named.
    assert "the optimizer holds 20 of the model's 31 trainable parameters" in words
    assert " and 8 more. Give the recorder every optimizer of the model" in words
    assert words.removeprefix("depthscope: ") in recorder.report().notes
    with recorder:
        loss_of(model, inputs, targets).backward()
        for optimizer in optimizers:
            optimizer.step()
        recorder.step()
    row = rows["fast"][0]
    twin = build_like(model)
    loss_of(twin, inputs, targets).backward()
    by_hand = [
        sum(float(p.grad.double().square().sum()) for p in layer.parameters() if p.dim() == 2) ** 0.5
        for layer in twin.layers
    ]
    same(row, {"param_grad_norm": by_hand}, "param_grad_norm")
    assert all(row[f"{group}_grad_norm"] != row[f"{group}_grad_norm"] for group in ("embedding", "head"))


def test_an_optimizer_of_another_model_is_refused_when_the_recorder_is_attached(tmp_path: Path) -> None:
    """The copy of a model has parameters of its own, and so has one that was sharded since."""
    model, copied = build("prenorm"), build("prenorm")
    theirs = torch.optim.AdamW(copied.parameters())
    count = len(list(copied.parameters()))
    for given in (theirs, [torch.optim.AdamW(model.parameters()), theirs]):
        with pytest.raises(ValueError, match=f"AdamW holds {count} parameters, none of them the model's"):
            Recorder(model, tmp_path / "run", optimizer=given)
    assert not (tmp_path / "run").exists()
    Recorder(copied, tmp_path / "run", optimizer=theirs, example=EXAMPLE).close()


def test_frozen_parameters_need_no_optimizer(tmp_path: Path) -> None:
    model = build("prenorm")
    model.embedding.requires_grad_(False)
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad])
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=EXAMPLE)
    assert not any("optimizer" in note for note in recorder.report().notes)
    recorder.close()
