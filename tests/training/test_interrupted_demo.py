"""Ctrl-C and SIGTERM during a demo: its own exit code, no traceback, and every row so far in the runs."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from depthscope.store import open_run

PROGRAM = """
import sys
from pathlib import Path
from depthscope.training import DemoOptions, page, run_demo

# A page that is deaf to the interrupt, so that only the demo can end it.
page.serve_command = lambda root, port: [
    sys.executable, "-c", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
]
options = DemoOptions(
    designs=("prenorm", "block-attnres:S=2"), steps=int(sys.argv[2]), out=Path(sys.argv[1]), width=16, layers=4, context=16,
    batch=2, device="cpu",
)
# Lines come every tenth of the way: show one early.
from depthscope.training.progress import Lines
stepped = Lines.stepped
def soon(self, name, completed, loss):
    if completed == 20:
        print("under way", flush=True)
    stepped(self, name, completed, loss)
Lines.stepped = soon
sys.exit(run_demo(options))
"""


def start(out, steps):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(out), str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process, words):
    seen = ""
    while words not in seen:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        seen += line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_training_cleanly(tmp_path, number, code):
    out = tmp_path / "runs"
    process = start(out, steps=100_000)
    read_until(process, "under way")
    process.send_signal(number)
    rest, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
    if number == signal.SIGINT:
        assert f"Stopped. What was recorded is in {out}." in rest
    for name in ("prenorm", "block-attnres-S2"):
        run = open_run(out / name)
        assert run.status == "stopped"
        steps = run["loss"]["step"].values
        assert len(steps) >= 19
        assert steps.tolist() == list(range(len(steps)))


def test_the_page_stays_after_training_until_ctrl_c(tmp_path):
    process = start(tmp_path / "runs", steps=2)
    read_until(process, "The page stays at http://127.0.0.1:")
    assert open_run(tmp_path / "runs" / "prenorm").status == "finished"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
