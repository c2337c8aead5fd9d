"""Fault 31: training that goes on from an earlier step takes its record back, and the rows beyond are kept apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor, nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import truth
from tests.recording.loops import batches, build, loss_of


def steps(recorder: Recorder, model: nn.Module, batches_of_steps: list[tuple[Tensor, Tensor]]) -> None:
    for inputs, targets in batches_of_steps:
        loss = loss_of(model, inputs, targets)
        loss.backward()
        recorder.step(loss=loss.detach())
        model.zero_grad()


@pytest.mark.parametrize("how", ["load_state_dict", "start_step", "a new recorder that loads"])
def test_a_checkpoint_before_the_last_row_rewinds(how: str, tmp_path: Path) -> None:
    """Eight steps, then back to the third; the batches after it are others, and so are the losses."""
    model = build("prenorm")
    draw = batches()
    before, lost, after = ([draw() for _ in range(count)] for count in (3, 5, 2))
    expected = [truth(build("prenorm"), *batch) for batch in (*before, *after)]
    thrown_away = [truth(build("prenorm"), *batch) for batch in (*before, *lost)]
    recorder = Recorder(model, tmp_path / "run")
    steps(recorder, model, before)
    saved = recorder.state_dict()
    steps(recorder, model, lost)
    if how != "load_state_dict":
        recorder.close()
        recorder = Recorder(model, tmp_path / "run", start_step=3 if how == "start_step" else 0)
    if how != "start_step":
        recorder.load_state_dict(saved)
    steps(recorder, model, after)
    recorder.close()
    run = open_run(tmp_path / "run")
    assert run.steps("fast").tolist() == list(range(5))
    for name in ("loss", "state_rms", "grad_write_rms", "param_grad_norm"):
        wanted = np.stack([values[name] for values in expected])
        np.testing.assert_allclose(run[name].values, wanted, rtol=1e-5, err_msg=name)
    earlier = run.attempt(1)
    assert earlier.steps("fast").tolist() == list(range(8))
    np.testing.assert_allclose(
        earlier["loss"].values, [float(values["loss"]) for values in thrown_away], rtol=1e-5
    )
    assert [(rewind.row, rewind.step) for rewind in run.attempts] == [(3, 3)]


def test_a_step_between_two_rows_keeps_the_row_before_it(tmp_path: Path) -> None:
    model = build("prenorm")
    draw = batches()
    with Recorder(model, tmp_path / "run", every=4) as recorder:
        steps(recorder, model, [draw() for _ in range(9)])
    with Recorder(model, tmp_path / "run", every=4, start_step=6) as recorder:
        steps(recorder, model, [draw() for _ in range(4)])
    run = open_run(tmp_path / "run")
    assert run.steps("fast").tolist() == [0, 4, 8]
    assert run.attempt(1).steps("fast").tolist() == [0, 4, 8]
    assert run.attempt(1)["loss"].values[2] != run["loss"].values[2]
