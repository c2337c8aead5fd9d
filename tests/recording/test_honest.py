"""A number is right, or absent with its reason: loops that do something the recorder was not told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import BATCH, LAYERS, TIME, build, loss_of
from tests.recording.rows import record_one, spy_on_rows, trained

GRADIENTS = ("grad_write_rms", "grad_read_rms")


class Plain:
    """A trained model, and the row of its one plain step."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, design: str = "prenorm") -> None:
        self.rows = spy_on_rows(monkeypatch)
        self.model, self.inputs, self.targets = trained(build(design))
        record_one(self.model, self.inputs, self.targets, path)
        self.row = self.rows["fast"].pop(0)
        self.model.zero_grad()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)

    def loss(self) -> Tensor:
        return loss_of(self.model, self.inputs, self.targets)

    def same(self, row: dict[str, Any], *names: str) -> None:
        for name in names:
            np.testing.assert_allclose(row[name], self.row[name], rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plain:
    return Plain(tmp_path / "plain", monkeypatch)


def test_a_step_without_the_optimizers_has_no_gradients_and_says_why(plain: Plain, tmp_path: Path) -> None:
    recorder = Recorder(plain.model, tmp_path / "run", optimizer=plain.optimizer)
    plain.loss().backward()
    with pytest.warns(UserWarning, match=r"call\s+recorder.step\(\) after optimizer.step\(\)"):
        recorder.step()
    recorder.close()
    row = plain.rows["fast"][0]
    assert not set(GRADIENTS) & set(row)
    plain.same(row, "state_rms")


def test_a_forward_without_backward_counts_nowhere(plain: Plain, tmp_path: Path) -> None:
    with Recorder(plain.model, tmp_path / "run", optimizer=plain.optimizer) as recorder:
        loss = plain.loss()
        loss.backward()
        plain.model(plain.inputs * 0)  # for logging, say
        plain.optimizer.step()
        recorder.step(loss=loss)
    plain.same(plain.rows["fast"][0], *GRADIENTS, "state_rms", "loss_tokens")


def test_a_batch_whose_gradients_were_zeroed_counts_nowhere(plain: Plain, tmp_path: Path) -> None:
    with Recorder(plain.model, tmp_path / "run", optimizer=plain.optimizer) as recorder:
        loss_of(plain.model, plain.inputs * 0, plain.targets).backward()
        plain.optimizer.zero_grad()  # a bad batch
        loss = plain.loss()
        loss.backward()
        plain.optimizer.step()
        recorder.step(loss=loss)
    plain.same(plain.rows["fast"][0], *GRADIENTS, "state_rms", "write_cosine", "loss_tokens")


def test_an_optimizer_that_evaluates_several_times_counts_its_last(plain: Plain, tmp_path: Path) -> None:
    optimizer = torch.optim.LBFGS(plain.model.parameters(), lr=0.0, max_iter=3)
    calls = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = plain.loss()
        loss.backward()
        calls.append(loss)
        return loss

    with Recorder(plain.model, tmp_path / "run", optimizer=optimizer) as recorder:
        optimizer.step(closure)
        recorder.step(loss=calls[-1])
    plain.same(plain.rows["fast"][0], *GRADIENTS, "loss_tokens", "param_grad_norm")


def test_tokens_scale_the_gradients_per_token(plain: Plain, tmp_path: Path) -> None:
    """Half of the targets masked: L is a mean over half the tokens, so N is half, as the loop says."""
    targets = plain.targets.clone()
    targets.view(-1)[::2] = -100
    counted = int((targets != -100).sum())
    with Recorder(plain.model, tmp_path / "run", optimizer=plain.optimizer) as recorder:
        loss = loss_of(plain.model, plain.inputs, targets)
        loss.backward()
        plain.optimizer.step()
        recorder.step(loss=loss, tokens=counted)
        plain.optimizer.zero_grad()
        loss = loss_of(plain.model, plain.inputs, targets)
        loss.backward()
        plain.optimizer.step()
        recorder.step(loss=loss)
    told, untold = plain.rows["fast"][0], plain.rows["fast"][1]
    assert (told["loss_tokens"], untold["loss_tokens"]) == (counted, BATCH * TIME)
    np.testing.assert_allclose(
        untold["grad_write_rms"] / told["grad_write_rms"], BATCH * TIME / counted, rtol=1e-5
    )


def test_the_report_says_that_all_positions_count_unless_told(plain: Plain, tmp_path: Path) -> None:
    assert "counts every position" in str(
        record_one(plain.model, plain.inputs, plain.targets, tmp_path / "a").report()
    )


def test_arrays_without_a_value_are_missing_with_what_they_need(plain: Plain, tmp_path: Path) -> None:
    recorder = Recorder(plain.model, tmp_path / "run")
    for _ in range(3):
        plain.loss().backward()
        plain.model.zero_grad()
        recorder.step()
    recorder.close()
    missing = open_run(tmp_path / "run").missing
    assert missing["loss"] == "step() was given no loss"
    assert "zero_grad after recorder.step()" in missing["param_grad_norm"]
    assert "GradScaler" in missing["loss_scale"]
    assert "grad_write_rms" not in missing
    assert "loss" not in recorder.report().recorded
    assert "step() was given no loss:\n            loss" in str(recorder.report())


def test_a_loss_that_is_no_number_is_left_out_and_said(plain: Plain, tmp_path: Path) -> None:
    recorder = Recorder(plain.model, tmp_path / "run", optimizer=plain.optimizer)
    for loss, words in ((torch.ones(3), r"tensor of shape \(3,\)"), ("x", "loss is a str")):
        plain.loss().backward()
        plain.optimizer.step()
        with pytest.warns(UserWarning, match=words):
            recorder.step(loss=loss)  # type: ignore[arg-type]
        plain.model.zero_grad()
    recorder.close()
    run = open_run(tmp_path / "run")
    assert np.isnan(run["loss"].values).all()
    assert run["state_rms"].shape == (2, LAYERS)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"optimizer": "adam"}, "optimizer is 'adam'"), ({"every": 2.5}, "every=2.5")],
)
def test_options_of_the_wrong_type_are_named(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=words):
        Recorder(build("prenorm"), tmp_path / "run", **options)


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(ValueError, match="path is empty"):
        Recorder(build("prenorm"), "")
