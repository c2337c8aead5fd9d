"""Scripts that end without closing: their own exit code, at once, no word of ours, no accepted row lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray as xr

from depthscope.store import open_run

START = """
import sys, threading, time
from pathlib import Path
from depthscope.store import RunWriter
from tests.store.runs import fast, outline, slow

writers = [RunWriter.create(Path(sys.argv[1]) / str(i), name="r", config={}, layout=outline(),
                            streams=[fast(16), slow(8)]) for i in range(2)]
for step in range(40):
    for writer in writers:
        assert writer.append("fast", step, {"loss": step})
"""
ENDINGS = {
    "the end": ("", 0, ""),
    "dropped": ("del writer, writers", 0, ""),
    "sys.exit": ("sys.exit(7)", 7, ""),
    "uncaught": ("raise ValueError('the training failed')", 1, "ValueError: the training failed"),
    "in a thread": ("threading.Thread(target=lambda: sys.exit(3)).start()", 0, ""),
}
LATE_THREAD = """
def late():
    time.sleep(0.5)
    for step in range(40, 50):
        for writer in writers:
            assert writer.append("fast", step, {"loss": step})
threading.Thread(target=late).start()
"""


def leave(tmp_path: Path, ending: str) -> tuple[int, str, float]:
    started = time.time()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", START + ending, str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr, time.time() - started


def check_rows(tmp_path: Path, count: int) -> None:
    for name in ("0", "1"):
        run = open_run(tmp_path / name)
        assert run.status == "finished"
        assert run["loss"].values.tolist() == list(range(count))
        with xr.open_datatree(run.path / "rank00000" / "data.zarr", engine="zarr") as tree:
            assert tree["fast"].to_dataset()["loss"].values.tolist() == list(range(count))


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_is_the_scripts_own(tmp_path: Path, ending: str) -> None:
    code, expected_code, expected_error = ENDINGS[ending]
    returned, error, seconds = leave(tmp_path, code)
    assert returned == expected_code
    assert error.strip().splitlines()[-1:] == ([expected_error] if expected_error else [])
    assert "depthscope" not in error
    assert seconds < 10
    check_rows(tmp_path, 40)


def test_rows_of_a_thread_that_outlives_the_main_thread_are_kept(tmp_path: Path) -> None:
    returned, error, _ = leave(tmp_path, LATE_THREAD)
    assert (returned, error) == (0, "")
    check_rows(tmp_path, 50)


def test_ctrl_c_ends_the_script_within_five_seconds(tmp_path: Path) -> None:
    code = START + "\nprint('ready', flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "ready\n"
        started = time.time()
        os.kill(script.pid, signal.SIGINT)
        _, error = script.communicate(timeout=30)
    assert time.time() - started < 5
    assert script.returncode == -signal.SIGINT
    assert error.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert error.count("Traceback") == 1
    assert "depthscope" not in error
    check_rows(tmp_path, 40)


def test_a_disk_that_hangs_does_not_hold_the_script_for_more_than_five_seconds(tmp_path: Path) -> None:
    hang = "import depthscope.store.files as files, os; os.replace = lambda *a: time.sleep(60)"
    code = START + f"\nprint('ready', flush=True)\n{hang}"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "ready\n"
        started = time.time()
        _, error = script.communicate(timeout=30)
    assert time.time() - started < 5
    assert (script.returncode, error) == (0, "")
    run = open_run(tmp_path / "0")
    assert run.status == "crashed"
    assert run["loss"].values.tolist() == list(range(40))


def test_sigterm_is_a_kill_and_the_log_covers_it(tmp_path: Path) -> None:
    code = START + "\nprint('ready', flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "ready\n"
        script.terminate()
    run = open_run(tmp_path / "0")
    assert run.status == "crashed"
    assert run["loss"].values.tolist() == list(range(40))
