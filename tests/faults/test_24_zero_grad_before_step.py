"""Fault 24: without an optimizer, gradients that zero_grad took before step() are missing, with that reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.probes import ParameterGradient
from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import FORWARD, GRADIENTS, PARAMETERS, same, truth, without_updates
from tests.recording.loops import build, loss_of
from tests.recording.rows import spy_on_rows, trained


def test_without_an_optimizer_gradients_are_read_in_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    with Recorder(model, tmp_path / "run") as recorder:
        loss_of(model, inputs, targets).backward()
        recorder.step()
        model.zero_grad()
    same(rows["fast"][0], expected, *PARAMETERS)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zeroed_gradients_are_missing_and_not_zero(
    set_to_none: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    recorder = Recorder(model, tmp_path / "run")
    for _ in range(4):
        loss_of(model, inputs, targets).backward()
        model.zero_grad(set_to_none=set_to_none)
        recorder.step()
    recorder.close()
    run = open_run(tmp_path / "run")
    for step in range(4):
        for name in PARAMETERS:
            assert np.isnan(rows["fast"][step].get(name, np.nan)).all(), name
        same(rows["fast"][step], expected, *FORWARD, *GRADIENTS)
    for name in PARAMETERS:
        assert run.missing[name] == (
            "no parameter had a gradient when they were read: give the recorder the optimizer, or call zero_grad "
            "after recorder.step()"
        )
        assert name not in recorder.report().recorded
    assert "grad_norm" in ParameterGradient.quantities


def test_with_the_optimizer_given_they_are_read_at_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        for set_to_none in (True, False):
            loss_of(model, inputs, targets).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
            recorder.step()
    for step in range(2):
        same(rows["fast"][step], expected, *PARAMETERS, *GRADIENTS)


def test_a_gradient_that_is_zero_is_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing came back to the activations either: the loss does not depend on the model."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    with Recorder(model, tmp_path / "run") as recorder:
        (0 * loss_of(model, inputs, targets)).backward()
        recorder.step()
    assert rows["fast"][0]["grad_norm"] == 0
    assert rows["fast"][0]["grad_write_rms"].tolist() == [0] * 8
