"""Loops whose calls come in another order, or in part: numbers are right or left out, and it is said why."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import batches, build, loss_of, optimizer_of
from tests.recording.test_neglect import told

PARAMETERS = ("param_grad_norm", "grad_norm")


def test_where_the_optimizer_steps_behind_it_no_row_has_the_gradients_of_the_step_before(
    tmp_path: Path,
) -> None:
    model, draw = build("prenorm"), batches()
    optimizer = optimizer_of(model)
    size = []
    with told() as said:
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
        for _ in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, *draw())
            loss.backward()  # type: ignore[no-untyped-call]
            size.append(loss.item())
            recorder.step(loss=loss)
            optimizer.step()
        recorder.close()
    assert sum("optimizer.step() comes behind recorder.step()" in each for each in said) == 1
    run = open_run(tmp_path / "run")
    for name in (*PARAMETERS, "learning_rate"):
        assert np.isnan(run[name].values).all(), name
    np.testing.assert_allclose(run["loss"].values, size, rtol=1e-6)
    assert np.isfinite(run["grad_write_rms"].values[1:]).all(), "of this very backward"


def test_a_step_of_some_of_the_optimizers_has_no_norms(tmp_path: Path) -> None:
    """The gradients of the others go on adding up: a norm over the whole model is neither of this step nor of two."""
    model, draw = build("prenorm"), batches()
    parameters = list(model.parameters())
    one, other = (torch.optim.SGD(half, lr=1e-2) for half in (parameters[:5], parameters[5:]))
    expected = []
    with told() as said:
        recorder = Recorder(model, tmp_path / "run", optimizer=[one, other])
        for step in range(4):
            loss = loss_of(model, *draw())
            loss.backward()  # type: ignore[no-untyped-call]
            whole = torch.stack([each.grad.norm() for each in parameters if each.grad is not None]).norm()
            expected.append(float(whole) if step % 2 else np.nan)
            for optimizer in (one, other) if step % 2 else (one,):
                optimizer.step()
                optimizer.zero_grad()
            recorder.step(loss=loss)
        recorder.close()
    assert sum("only some of the optimizers step" in each for each in said) == 1
    run = open_run(tmp_path / "run")
    np.testing.assert_allclose(run["grad_norm"].values, expected, rtol=1e-5)
    assert np.isnan(run["param_grad_norm"].values[::2]).all()
    assert np.isfinite(run["grad_write_rms"].values).all()


def test_a_model_compiled_as_a_whole_without_an_example_is_told_of_at_the_first_step(tmp_path: Path) -> None:
    model = build("foreign")
    optimizer = optimizer_of(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
    compiled = torch.compile(model, backend="eager")
    loss_of(compiled, *batches()()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    with pytest.warns(UserWarning, match="compiled as a whole, and compiled code can't show its depth axis"):
        recorder.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorder.close()


def test_a_mask_that_lets_nothing_count_is_named_as_the_cause(tmp_path: Path) -> None:
    model = build("prenorm")
    optimizer = optimizer_of(model)
    inputs, targets = batches()()
    with told() as said:
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
        for _ in range(3):
            with recorder.tokens(torch.zeros_like(inputs, dtype=torch.bool)):
                loss = loss_of(model, inputs, targets)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            recorder.step(loss=loss)
        recorder.close()
    assert sum("one that is False everywhere lets no position count" in each for each in said) == 1
    assert not any("compiled code" in each.lower() for each in said)
