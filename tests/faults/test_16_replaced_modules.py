"""Fault 16: a module that is created or replaced after attaching is reported; all other numbers stay right."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import FORWARD, GRADIENTS, one_step, same, truth, without_updates
from tests.recording.loops import LAYERS, build
from tests.recording.rows import spy_on_rows, trained

OTHERS = [1, 2, 3, 5, 6, 7, 8]


def test_the_layer_of_a_replaced_module_is_missing_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    expected = truth(model, inputs, targets)
    optimizer = without_updates(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)

    def steps() -> None:
        for step in range(6):
            if step == 2:
                model.tower[1].beta = copy.deepcopy(model.tower[1].beta)  # the same weights in another module
            one_step(model, optimizer, recorder, inputs, targets)
        recorder.close()

    with pytest.warns(UserWarning, match=r"layer 4 \(tower\.1\.beta\) any more: it stopped firing.*replaced"):
        steps()
    for step in range(6):
        same(rows["fast"][step], expected, *FORWARD, *GRADIENTS, layers=OTHERS)
        assert np.isnan(rows["fast"][step]["write_rms"][3]) == (step >= 2)
    run = open_run(tmp_path / "run")
    assert "replaced" in run.missing["write of layer 4 (tower.1.beta)"]
    assert np.isfinite(run["loss"].values).all()


class Adapted(nn.Module):
    """A linear layer with a low-rank term that starts at zero, as LoRA puts it in."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Parameter(torch.ones(2, inner.in_features))
        self.up = nn.Parameter(torch.zeros(inner.out_features, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + x @ self.down.T @ self.up.T


def test_an_adapter_inside_a_sublayer_changes_no_number_of_the_activations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
        owner, name = next(
            (module, name)
            for module in model.layers[1].sublayer.modules()
            for name, child in module.named_children()
            if isinstance(child, nn.Linear)
        )
        setattr(owner, name, Adapted(getattr(owner, name)))
        for _ in range(3):
            one_step(model, optimizer, recorder, inputs, targets)
    for step in range(4):
        same(rows["fast"][step], expected, *FORWARD, *GRADIENTS, layers=list(range(1, LAYERS + 1)))
