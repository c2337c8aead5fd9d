"""A forked child, such as a data loader's worker, inherits the writer and must not touch the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from depthscope.store import open_run

SCRIPT = """
import os, sys, time
from pathlib import Path
from depthscope.store import RunWriter
from tests.store.runs import fast, outline

path = Path(sys.argv[1])
writer = RunWriter.create(path, name="r", config={}, layout=outline(), streams=[fast(16)])
empty = RunWriter.create(path.parent / "empty", name="r", config={}, layout=outline(), streams=[fast(16)])
for step in range(20):
    assert writer.append("fast", step, {"loss": step})
child = os.fork()
if child == 0:
    assert writer.append("fast", 20, {"loss": -1.0}) is False
    assert writer.flush() is False
    writer.annotate("who", "child")
    writer.close()
    open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit()
                  and os.path.islink(f"/proc/self/fd/{fd}")]
    # A chunk that the parent's flush thread had open at that moment does no harm; the lock and the log would.
    assert not any(name.endswith(("LOCK", ".log")) for name in open_files), open_files
    time.sleep(float(sys.argv[2]))
    sys.exit(5)
if sys.argv[2] == "0":
    assert os.waitpid(child, 0)[1] == 5 << 8
for step in range(20, 40):
    assert writer.append("fast", step, {"loss": step})
writer.annotate("who", "parent")
writer.close()
empty.close()
# The child still lives when it sleeps: it must not keep the lock of a run that may be recorded again.
RunWriter.create(path.parent / "empty", name="r", config={}, layout=outline(), streams=[fast(16)]).close()
print("free")
if sys.argv[2] != "0":
    os.waitpid(child, 0)
"""


def check(tmp_path: Path, sleep: str) -> None:
    # From 3.12 on Python warns of every fork beside threads, which is what this is about.
    fork_beside_threads = "ignore:This process:DeprecationWarning"
    done = subprocess.run(
        [sys.executable, "-W", fork_beside_threads, "-c", SCRIPT, str(tmp_path / "run"), sleep],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "free\n", "")
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run["loss"].values.tolist() == list(range(40))
    assert run.notes["who"] == "parent"


def test_a_child_that_ends_writes_nothing_and_unlocks_nothing(tmp_path: Path) -> None:
    check(tmp_path, "0")


def test_a_child_that_outlives_the_writer_does_not_keep_the_lock(tmp_path: Path) -> None:
    check(tmp_path, "1.5")
