"""Start real ranks with torchrun, wait, and read what each left; nothing else is ended than what was started."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 240
"""Of one launch: thirty times what it takes on two idle cores."""


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "DEPTHSCOPE_STRICT": "1"}


def launch_once(about: pytest.TempPathFactory, name: str, start: Callable[[Path], object]) -> Path:
    """Return a folder that `start` has filled: once for all tests that ask, whichever worker of a session runs them."""
    mine = about.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / name
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "done").exists():
            folder.mkdir(exist_ok=True)
            start(folder)
            (folder / "done").touch()
    return folder


def launch(world: int, scenarios: list[str], folder: Path) -> None:
    """Run the scenarios one after the other on `world` ranks."""
    torchrun(world, "-m", "tests.ranks.on_ranks", str(folder), *scenarios)


def torchrun(world: int, *command: str, code: int = 0) -> str:
    """Run a command on `world` ranks; return what they printed, once torchrun has ended with `code`."""
    launcher = _start(
        *("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", *command),
        environment=ENVIRONMENT,
    )
    printed = _wait_for(launcher, str(command))
    assert launcher.returncode == code, printed[-6000:]
    return printed


def launch_without_watch(world: int, scenario: str, folder: Path) -> list[int]:
    """Run a scenario on ranks that nobody ends when one dies, as torchrun would; return their exit codes."""
    started = [
        _start(
            *("-m", "tests.ranks.on_ranks", str(folder), scenario),
            environment=ENVIRONMENT
            | {"RANK": str(rank), "WORLD_SIZE": str(world), "RENDEZVOUS": f"file://{folder}/rendezvous"},
        )
        for rank in range(world)
    ]
    for process in started:
        print(_wait_for(process, scenario))
    return [process.returncode for process in started]


def _start(*command: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _wait_for(process: subprocess.Popen[str], what: str) -> str:
    try:
        return process.communicate(timeout=LIMIT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        # The ranks lead sessions of their own under torchrun, which ends them when it is asked to.
        process.send_signal(signal.SIGTERM)
        try:
            printed = process.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed = process.communicate()[0]
        raise AssertionError(f"{what} hung:\n{printed[-6000:]}") from None


def left_by(folder: Path, scenario: str, rank: int = 0) -> Any:
    """Return what a rank left of a scenario."""
    with open(folder / f"{scenario.replace('/', '-')}.{rank}.pickle", "rb") as file:
        return pickle.load(file)
