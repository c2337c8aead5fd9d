"""What makes a row, when it is due, and what a loop may do in between."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.anatomy import AnatomyError
from depthscope.recording import Recorder, Schedule
from depthscope.store import open_run
from tests.recording.loops import BATCH, LAYERS, TIME, batches, build, loss_of, optimizer_of, train
from tests.recording.rows import record_one, spy_on_rows, trained


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


def test_half_a_step_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    record_one(model, inputs, targets, tmp_path / "alone")
    alone = rows["fast"][0]
    model.zero_grad()
    optimizer = optimizer_of(model)

    def explode(*_: object) -> None:
        raise MemoryError("out of memory")

    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        handle = model.layers[3].register_forward_pre_hook(explode)
        with pytest.raises(MemoryError):
            model(inputs * 0)
        handle.remove()
        loss = loss_of(model, inputs * 0, targets)
        handle = model.layers[2].sublayer.out.register_full_backward_pre_hook(explode)
        broken = loss_of(model, inputs * 0, targets)
        with pytest.raises(MemoryError):
            broken.backward()
        handle.remove()
        del loss
        model.zero_grad()
        loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss, tokens=BATCH * TIME)
    for name in ("state_rms", "write_cosine", "grad_write_rms", "grad_read_rms"):
        np.testing.assert_array_equal(rows["fast"][0][name], alone[name], err_msg=name)


def test_copies_and_pickles_of_the_model_are_inert(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("prenorm"))
    optimizer = optimizer_of(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        twin, thawed = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        for other in (twin, thawed):
            loss_of(other, inputs, targets).backward()
        assert recorder._session is not None
        assert recorder._session.observer.generations == []
        one_step(model, optimizer, recorder, lambda: (inputs, targets))


def test_closing_leaves_the_users_hooks_and_none_of_ours(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("full-attnres"))
    calls = []
    model.layers[0].register_forward_hook(lambda *_: calls.append(1))
    record_one(model, inputs, targets, tmp_path / "run")
    left = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    assert (left, len(calls)) == (1, 1)


def test_a_recorder_for_the_same_model_closes_the_earlier_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, inputs, targets = trained(build("prenorm"))
    first = Recorder(model, tmp_path / "first")
    loss_of(model, inputs, targets).backward()
    first.step()
    with Recorder(model, tmp_path / "second") as second:
        assert first.closed
        loss_of(model, inputs, targets).backward()
        second.step()
    assert capsys.readouterr().out.count("closed the earlier recorder") == 1
    assert len(open_run(tmp_path / "first")["state_rms"]) == 1


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
