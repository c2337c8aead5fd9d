"""What makes a row, when it is due, and what a loop may do in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.anatomy import AnatomyError
from depthscope.recording import Recorder, Schedule
from depthscope.store import open_run
from tests.recording.loops import LAYERS, batches, build, loss_of, optimizer_of, train
from tests.recording.rows import spy_on_rows, trained


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, recorder: Recorder, draw: object) -> None:
    loss = loss_of(model, *draw())  # type: ignore[operator]
    loss.backward()
    optimizer.step()
    recorder.step(loss=loss.detach())
    optimizer.zero_grad()


def test_a_row_is_due_at_multiples_of_every_and_named_by_completed_steps(tmp_path: Path) -> None:
    model = build("prenorm")
    draw, optimizer = batches(), optimizer_of(model)
    every = {"fast": 3, "slow": 6}
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every=every, start_step=100) as recorder:
        train(model, 10, draw, optimizer, lambda loss: recorder.step(loss=loss))
    assert open_run(tmp_path / "run")["state_rms"].step.values.tolist() == [102, 105, 108]


def test_a_dense_beginning(tmp_path: Path) -> None:
    model = build("prenorm")
    draw, optimizer = batches(), optimizer_of(model)
    every = {"fast": Schedule(every=4, dense_until=3)}
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every=every) as recorder:
        train(model, 9, draw, optimizer, lambda loss: recorder.step(loss=loss))
    assert open_run(tmp_path / "run")["loss"].step.values.tolist() == [0, 1, 2, 4, 8]


def test_values_over_depth_keep_as_many_mantissa_bits_as_asked(tmp_path: Path) -> None:
    model = build("prenorm")
    draw, optimizer = batches(), optimizer_of(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, mantissa_bits=10) as recorder:
        train(model, 3, draw, optimizer, lambda loss: recorder.step(loss=loss))
    run = open_run(tmp_path / "run")
    state, loss = (run[name].values.view("u4") & 0x1FFF for name in ("state_rms", "loss"))
    assert not state.any()
    assert loss.any()


def test_nothing_recorded_is_said(tmp_path: Path) -> None:
    recorder = Recorder(build("foreign"), tmp_path / "run")
    with pytest.warns(UserWarning, match="never ran forward in training mode"):
        recorder.close()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"every": 0}, ValueError, "every=0"),
        ({"every": {"medium": 2}}, ValueError, "medium"),
        ({"resume": "perhaps"}, ValueError, "perhaps"),
        ({"resume": "must"}, FileNotFoundError, "no run at"),
    ],
)
def test_wrong_options_fail_at_once(
    options: dict[str, object], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        Recorder(build("prenorm"), tmp_path / "run", **options)  # type: ignore[arg-type]


def test_a_failing_probe_ends_the_recording_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPTHSCOPE_STRICT", "0")
    model, inputs, targets = trained(build("prenorm"))
    optimizer = optimizer_of(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
    assert recorder._session is not None
    monkeypatch.setattr(recorder._session.observer, "see_state", lambda *_: 1 / 0, raising=True)
    recorder._session.detach()
    from depthscope.recording import hooks

    recorder._session.handles = hooks.attach(recorder._session.observer, model, recorder._guarded, {})
    with pytest.warns(UserWarning, match="ZeroDivisionError.*training goes on"):
        one_step(model, optimizer, recorder, lambda: (inputs, targets))
    one_step(model, optimizer, recorder, lambda: (inputs, targets))
    assert "ZeroDivisionError" in str(recorder.report())
    recorder.close()


def test_a_layer_whose_write_is_no_longer_what_is_added_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    stage = model.tower[1]

    factor = 1.0

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = x + factor * stage.alpha(stage.u(x))
        return x + stage.beta(stage.w(x))

    stage.forward = forward
    optimizer = optimizer_of(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs)
    factor = 0.5  # after the depth axis was found

    def step_and_close() -> None:
        one_step(model, optimizer, recorder, lambda: (inputs, targets))
        recorder.close()

    with pytest.warns(UserWarning, match=r"layer 3.*withdrawn"):
        step_and_close()
    assert np.isnan(rows["fast"][0]["state_rms"]).tolist() == [layer == 2 for layer in range(LAYERS)]
    assert "relative gap" in str(open_run(tmp_path / "run").missing)


def test_a_model_whose_blocks_do_not_solve_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At attach with an example; else with one warning on the first training forward, and training goes on."""
    model, inputs, targets = trained(build("foreign"))
    for stage in model.tower:
        stage.forward = lambda x, stage=stage: 0.5 * x + 0.7 * stage.alpha(stage.u(x))
    with pytest.raises(AnatomyError, match=r"no sublayer.*tower\.0"):
        Recorder(model, tmp_path / "with", example=inputs)
    monkeypatch.setenv("DEPTHSCOPE_STRICT", "0")
    optimizer = optimizer_of(model)
    recorder = Recorder(model, tmp_path / "without", optimizer=optimizer)
    with pytest.warns(UserWarning, match=r"no sublayer.*training goes on"):
        one_step(model, optimizer, recorder, lambda: (inputs, targets))
    one_step(model, optimizer, recorder, lambda: (inputs, targets))
    recorder.close()
    assert "no sublayer" in str(recorder.report())
