"""However a script ends, its exit code is its own, nothing of ours is printed, and no accepted row is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from depthscope.store import open_run

HEAD = """
import sys, torch
from tests.recording.loops import batches, build, optimizer_of, train
import depthscope
model = build("prenorm")
optimizer = optimizer_of(model)
recorder = depthscope.Recorder(model, sys.argv[1], optimizer=optimizer)
train(model, {steps}, batches(), optimizer, lambda loss: recorder.step(loss=loss))
recorder.evaluation(validation=1.25)
print("accepted", flush=True)
"""

ENDINGS = {
    "runs off its end": ("", 0, "", "finished"),
    "sys.exit": ("sys.exit(7)", 7, "", "finished"),
    "an uncaught exception": ("raise RuntimeError('mine')", 1, "RuntimeError: mine", "stopped"),
    "drops the recorder first": ("del recorder, model, optimizer", 0, "", "finished"),
    "inside a with block that raises": (
        "with recorder: raise KeyError('mine')",
        1,
        "KeyError: 'mine'",
        "stopped",
    ),
}
STEPS = 12


def start(script: str, path: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_leaving_without_close(ending: str, tmp_path: Path) -> None:
    code, expected, says, status = ENDINGS[ending]
    process = start(HEAD.format(steps=STEPS) + code, tmp_path / "run")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == expected, errors
    assert says in errors
    assert "depthscope/" not in errors.replace(str(Path(__file__).parents[2]), ""), errors
    run = open_run(tmp_path / "run")
    assert run["loss"].step.values.tolist() == list(range(STEPS))
    assert run["validation"].values.tolist() == [1.25]
    assert run.status == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_killed(number: signal.Signals, tmp_path: Path) -> None:
    script = HEAD.format(steps=STEPS) + (
        "train(model, 10**6, batches(), optimizer, lambda loss: recorder.step(loss=loss))"
    )
    process = start(script, tmp_path / "run")
    assert process.stdout is not None
    assert process.stdout.readline() == "accepted\n"
    time.sleep(1)
    process.send_signal(number)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - sent < 5
    assert process.returncode == -number, errors
    assert number == signal.SIGKILL or "KeyboardInterrupt" in errors
    run = open_run(tmp_path / "run")
    steps = run["loss"].step.values
    assert len(steps) >= STEPS
    assert steps.tolist() == list(range(len(steps)))
    assert run.status == ("stopped" if number == signal.SIGINT else "crashed")
