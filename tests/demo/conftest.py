"""The four designs of the demo, trained and recorded once for all tests, small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.app.conftest import light, page, serve

__all__ = ["demo_runs", "light", "page", "serve"]

DEMO = (
    *("--steps", "60", "--layers", "16", "--width", "48", "--batch", "4", "--context", "64"),
    *("--every-slow", "5", "--no-serve"),
)


def depthscope(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run the command line of depthscope in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "depthscope", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | {"COLUMNS": "120"},
    )


@pytest.fixture(scope="session")
def demo_runs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return the folder that holds the runs prenorm, full-attnres, block-attnres and hires."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    root = shared / "demo-runs"
    with FileLock(shared / "demo-runs.lock"):
        if not root.exists():
            done = depthscope("demo", *DEMO, "--out", str(root))
            assert done.returncode == 0, done.stderr
    return root
