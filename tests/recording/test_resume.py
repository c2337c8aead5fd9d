"""Training that is killed, stopped or taken back goes on from its checkpoint, and so does its record."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import RunLocked, open_run
from tests.recording.loops import batches, build, loss_of, optimizer_of

STEPS, CHECKPOINT_EVERY, EVALUATE_EVERY = 40, 7, 14
TIMES = {"step_seconds", "recording_seconds", "wall_time"}


def training_script(path: Path, checkpoint: Path) -> None:
    """A loop as users write it: it resumes from its checkpoint when there is one."""
    model = build("block-attnres:S=3")
    optimizer = optimizer_of(model)
    draw = batches()
    recorder = Recorder(model, path, optimizer=optimizer, every={"fast": 1, "slow": 5})
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        recorder.load_state_dict(saved["recorder"])
        first = saved["step"]
    for _ in range(first):
        draw()
    for step in range(first, STEPS):
        loss = loss_of(model, *draw())
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach(), metrics={"twice": 2 * step})
        optimizer.zero_grad()
        print(step, flush=True)
        done = step + 1
        if done % EVALUATE_EVERY == 0:
            recorder.evaluation(validation=loss.detach())
        if done % CHECKPOINT_EVERY == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "recorder": recorder.state_dict(),
                "step": done,
            }
            torch.save(state, checkpoint.with_suffix(".new"))
            os.replace(checkpoint.with_suffix(".new"), checkpoint)
    recorder.close()


def everything(path: Path) -> dict[str, np.ndarray]:
    """Return steps and values of every recorded array, wall-clock times left out."""
    run = open_run(path)
    found = {f"steps of {stream}": run.steps(stream) for stream in run.streams}
    return found | {name: run[name].values for name in run.quantities if name not in TIMES}


def start(path: Path, checkpoint: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    code = (
        "import sys; from pathlib import Path; from tests.recording.test_resume import training_script;"
        "training_script(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(checkpoint)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    )


def test_a_killed_run_resumed_from_its_checkpoint_equals_one_that_was_never_killed(tmp_path: Path) -> None:
    training_script(tmp_path / "whole", tmp_path / "whole.pt")
    draw = random.Random(0)
    kills = (draw.randrange(3, 12), draw.randrange(16, 26), draw.randrange(29, STEPS - 2))
    for kill_after in kills:
        with start(tmp_path / "killed", tmp_path / "killed.pt") as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= kill_after:
                    # Some way into the next steps, wherever that is.
                    time.sleep(draw.uniform(0, 0.01))
                    process.kill()
                    break
        assert process.returncode == -signal.SIGKILL
    assert open_run(tmp_path / "killed").status == "crashed"
    training_script(tmp_path / "killed", tmp_path / "killed.pt")
    whole, killed = everything(tmp_path / "whole"), everything(tmp_path / "killed")
    assert whole.keys() == killed.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(killed[name], values, err_msg=name)
    run = open_run(tmp_path / "killed")
    assert run.status == "finished"
    assert run["loss"].sizes["step"] == STEPS
    # What was recorded beyond a checkpoint before the kill can still be looked at.
    for number, attempt in enumerate(run.attempts, start=1):
        earlier = run.attempt(number)["loss"]
        assert earlier.sizes["step"] > attempt.row == attempt.step
        np.testing.assert_array_equal(earlier.values, run["loss"].values[: earlier.sizes["step"]])
    assert run.attempts


def steps(recorder: Recorder, model: nn.Module, count: int) -> None:
    draw = batches()
    for _ in range(count):
        loss = loss_of(model, *draw())
        loss.backward()
        recorder.step(loss=loss.detach())
        model.zero_grad()


def test_without_a_checkpoint_the_run_begins_anew_and_the_old_rows_are_an_earlier_attempt(
    tmp_path: Path,
) -> None:
    for count in (6, 4):
        model = build("prenorm")
        with Recorder(model, tmp_path / "run") as recorder:
            steps(recorder, model, count)
    run = open_run(tmp_path / "run")
    assert run.steps("fast").tolist() == list(range(4))
    assert run.attempt(1).steps("fast").tolist() == list(range(6))
    assert [(rewind.row, rewind.step) for rewind in run.attempts] == [(0, 0)]


def test_start_step_says_where_the_record_goes_on(tmp_path: Path) -> None:
    model = build("prenorm")
    with Recorder(model, tmp_path / "run", config={"lr": 1.0}) as recorder:
        steps(recorder, model, 6)
    with Recorder(
        model, tmp_path / "run", start_step=6, resume="must", config={"lr": 0.5}, every=2
    ) as recorder:
        steps(recorder, model, 3)
    run = open_run(tmp_path / "run")
    assert run.steps("fast").tolist() == [0, 1, 2, 3, 4, 5, 6, 8]
    assert run.attempts == ()
    assert (dict(run.config), run.notes["configurations"]) == ({"lr": 1.0}, {"6": {"lr": 0.5}})
    assert run.streams["fast"] == 2


def test_the_state_holds_an_evaluation_that_has_no_row_yet(tmp_path: Path) -> None:
    model = build("prenorm")
    with Recorder(model, tmp_path / "first") as recorder:
        steps(recorder, model, 2)
        recorder.evaluation(validation=torch.tensor(1.5))
        saved = recorder.state_dict()
    with Recorder(model, tmp_path / "second") as recorder:
        recorder.load_state_dict(saved)
        steps(recorder, model, 1)
    run = open_run(tmp_path / "second")
    assert run["validation"].values.tolist() == [1.5]
    assert run["validation"]["step"].values.tolist() == [2]


def test_a_run_that_shall_not_be_touched_is_refused_with_the_ways_out(tmp_path: Path) -> None:
    model = build("prenorm")
    with Recorder(model, tmp_path / "run") as recorder:
        steps(recorder, model, 1)
    with pytest.raises(FileExistsError, match=r"another path.*resume='auto'.*delete") as error:
        Recorder(build("prenorm"), tmp_path / "run", resume="never")
    assert str(tmp_path / "run") in str(error.value)


def test_another_process_is_refused_when_the_recorder_is_attached(tmp_path: Path) -> None:
    with start(tmp_path / "run", tmp_path / "run.pt") as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(RunLocked, match=f"process {process.pid} on"):
                Recorder(build("foreign"), tmp_path / "run")
        finally:
            process.kill()
