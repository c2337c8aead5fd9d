"""Fault 6: frozen parameters have no gradient, which is not a gradient of 0; unfrozen later they have one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import FORWARD, GRADIENTS, one_step, same, truth, truth_of, without_updates
from tests.recording.loops import LAYERS, build
from tests.recording.rows import spy_on_rows, trained


@pytest.mark.parametrize("design", ["prenorm", "foreign"])
def test_a_frozen_sublayer_is_missing_with_the_reason_until_it_is_unfrozen(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    all_trained = truth(model, inputs, targets)
    third = [model.layers[2]] if design == "prenorm" else [model.tower[1].u, model.tower[1].alpha]
    for part in third:
        part.requires_grad_(False)
    with_a_frozen = truth_of(model, inputs, targets)
    model.zero_grad()
    optimizer = without_updates(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
    for step in range(6):
        if step == 4:
            for part in third:
                part.requires_grad_(True)
        one_step(model, optimizer, recorder, inputs, targets)
    recorder.close()
    others = [layer for layer in range(1, LAYERS + 1) if layer != 3]
    for step in range(6):
        row = rows["fast"][step]
        same(row, all_trained, *FORWARD, *GRADIENTS)
        same(row, all_trained, "param_grad_norm", layers=others)
        if step < 4:
            assert np.isnan(row["param_grad_norm"][2])
            same(row, with_a_frozen, "grad_norm")
        else:
            same(row, all_trained, "param_grad_norm", "grad_norm")
    missing = open_run(tmp_path / "run").missing
    assert "frozen" in missing["param_grad_norm of layer 3"]
