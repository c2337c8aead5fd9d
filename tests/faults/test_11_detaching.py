"""Fault 11: detaching removes our own handles and nobody else's; a second recorder closes the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording.loops import build, loss_of
from tests.recording.rows import spy_on_rows, trained


def hooks_on(model: nn.Module) -> dict[str, list[Any]]:
    """All hooks of all modules, by module and kind."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        f"{path}{kind}": list(getattr(module, kind).values())
        for path, module in model.named_modules()
        for kind in kinds
        if getattr(module, kind)
    }


@pytest.mark.parametrize("design", ["full-attnres", "hires:B=2,n=2", "foreign"])
def test_closing_leaves_the_users_hooks_and_none_of_ours(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks made before attaching and while it lasts; one changes what passes, and is obeyed."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    calls = {"before": 0, "during": 0, "optimizer": 0}

    def count(name: str) -> Any:
        def hook(where: Any, *_: Any) -> None:
            # The replay of a due slow step calls the model too, in evaluation mode.
            calls[name] += getattr(where, "training", True)

        return hook

    embedding = model.letters if design == "foreign" else model.embedding
    embedding.register_forward_hook(count("before"))
    optimizer.register_step_pre_hook(count("optimizer"))
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs)
    ours = hooks_on(model)
    calls["before"] = 0  # finding the depth axis calls the model, and a hook of the user's is a part of it
    model.register_forward_hook(lambda module, args, logits: 2 * logits)
    embedding.register_forward_pre_hook(count("during"))
    doubled = loss_of(model, inputs, targets).item()
    model.zero_grad()
    one_step(model, optimizer, recorder, inputs, targets)
    recorder.close()
    assert doubled != pytest.approx(expected["loss"].item())
    same(rows["fast"][0], expected, "read_rms", "write_rms", "state_rms")
    left = hooks_on(model)
    assert sum(map(len, left.values())) == 3
    assert sum(map(len, ours.values())) > 10
    assert next(iter(optimizer._optimizer_step_pre_hooks.values())).__qualname__.startswith("test_closing")
    assert (len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks)) == (1, 0)
    assert loss_of(model, inputs, targets).item() == doubled
    assert calls == {"before": 3, "during": 3, "optimizer": 1}


def test_a_second_recorder_of_the_model_closes_the_first_with_one_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    first = Recorder(model, tmp_path / "first", optimizer=optimizer)
    one_step(model, optimizer, first, inputs, targets)
    hooks = sum(map(len, hooks_on(model).values()))
    with Recorder(model, tmp_path / "second", optimizer=optimizer) as second:
        assert first.closed
        assert sum(map(len, hooks_on(model).values())) == hooks
        rows.clear()
        one_step(model, optimizer, second, inputs, targets)
    assert capsys.readouterr().out.count("closed the earlier recorder") == 1
    assert open_run(tmp_path / "first").steps("fast").tolist() == [0]
    same(rows["fast"][0], expected, *ALL)
    assert hooks_on(model) == {}


def test_a_second_recorder_of_the_path_closes_the_first_with_one_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A notebook's cell that makes model and recorder, run again."""
    for _ in range(2):
        model, inputs, targets = trained(build("prenorm"))
        optimizer = without_updates(model)
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
        for _ in range(3):
            one_step(model, optimizer, recorder, inputs, targets)
    recorder.close()
    assert capsys.readouterr().out.count("closed the earlier recorder") == 1
    run = open_run(tmp_path / "run")
    assert run.steps("fast").tolist() == [0, 1, 2]
    assert len(run.attempts) == 1  # the earlier one


def test_a_closed_recorder_is_inert(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("prenorm"))
    optimizer = without_updates(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
    one_step(model, optimizer, recorder, inputs, targets)
    recorder.close()
    recorder.close()
    one_step(model, optimizer, recorder, inputs, targets)
    assert open_run(tmp_path / "run").steps("fast").tolist() == [0]
