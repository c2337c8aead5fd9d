"""One writer a run: a second one is refused by name, and readers know whether the first still lives."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from depthscope.store import RunLocked, RunWriter, open_run, refuse_existing_rows
from tests.store.runs import MakeWriter, fast, outline

SECOND = """
import sys
import time
from pathlib import Path
from depthscope.store import RunLocked, RunWriter
from tests.store.runs import fast, outline
try:
    RunWriter.create(Path(sys.argv[1]), name="second", config={}, layout=outline(), streams=[fast()])
except (RunLocked, FileExistsError) as error:
    print(type(error).__name__, error)
"""


def second_writer(path: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", SECOND, str(path)], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_a_second_process_is_refused_with_host_pid_and_age(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    said = second_writer(tmp_path / "run")
    assert said.startswith("RunLocked ")
    assert f"process {os.getpid()} on {socket.gethostname()}" in said
    assert re.search(r"for \d+ s", said)
    assert str(tmp_path / "run") in said
    assert writer.append("fast", 0, {"loss": 1.0})
    assert open_run(tmp_path / "run").name == "a run"


def test_the_same_process_is_refused_too_and_told_what_to_do(make_writer: MakeWriter) -> None:
    make_writer()
    with pytest.raises(RunLocked, match=r"this very process.*close the earlier recorder"):
        make_writer()


def test_rows_are_never_overwritten(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    writer.append("fast", 0, {"loss": 1.0})
    with pytest.raises(FileExistsError):
        refuse_existing_rows(tmp_path / "run")
    writer.close()
    with pytest.raises(FileExistsError, match=r"1 in fast.*another path.*delete") as error:
        make_writer()
    assert str(tmp_path / "run") in str(error.value)
    run = open_run(tmp_path / "run")
    assert (run.status, run["loss"].item()) == ("finished", 1.0)


def test_rows_of_a_killed_run_are_never_overwritten(tmp_path: Path) -> None:
    code = SECOND.replace("except", "    w = RunWriter\nexcept").replace(
        "RunWriter.create(", "w = RunWriter.create("
    )
    code = code.replace(
        "    w = RunWriter\n", "    w.append('fast', 0, {'loss': 1.0})\n    import os; os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, timeout=60)
    assert second_writer(tmp_path / "run").startswith("FileExistsError")
    run = open_run(tmp_path / "run")
    assert (run.status, run["loss"].item()) == ("crashed", 1.0)


@pytest.mark.parametrize("left", ["closed", "killed", "half made", "empty folder", "files of others"])
def test_a_folder_without_rows_is_used(make_writer: MakeWriter, tmp_path: Path, left: str) -> None:
    path = tmp_path / "run"
    if left == "closed":
        make_writer().close()
    elif left == "killed":
        subprocess.run(
            [
                sys.executable,
                "-c",
                SECOND.replace(
                    "streams=[fast()])", "streams=[fast()]); sys.stdout.flush(); __import__('os')._exit(0)"
                ),
                str(path),
            ],
            check=True,
            timeout=60,
        )
        assert (path / "run.json").exists()
    elif left == "half made":
        (path / "rank00000" / "data.zarr" / "fast").mkdir(parents=True)
    else:
        path.mkdir()
        if left == "files of others":
            (path / "checkpoint.pt").write_bytes(b"weights")
    refuse_existing_rows(path)
    writer = make_writer(name="again")
    writer.append("fast", 0, {"loss": 2.0})
    run = open_run(path)
    assert (run.name, run["loss"].item(), run.status) == ("again", 2.0, "live")
    if left == "files of others":
        assert (path / "checkpoint.pt").read_bytes() == b"weights"


def test_a_reader_follows_when_the_folder_gets_another_run(make_writer: MakeWriter, tmp_path: Path) -> None:
    make_writer(name="first").close()
    run = open_run(tmp_path / "run")
    assert run.rows("fast") == 0
    writer = make_writer(name="second")
    writer.append("fast", 3, {"loss": 2.0})
    assert run.last_step == 3
    assert run["loss"].values.tolist() == [2.0]
    assert run.name == "second"


def test_a_file_is_no_place_for_a_run(make_writer: MakeWriter, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    with pytest.raises(FileExistsError, match="is a file"):
        make_writer()


def owner_of(path: Path, **changes: Any) -> None:
    file = path / "rank00000" / "owner.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "live"),
        ({"process_start": 1}, "crashed"),  # the pid came round again
        ({"boot_id": "before the reboot", "heartbeat": 0}, "crashed"),
        ({"host": "elsewhere", "heartbeat": 0}, "crashed"),
        ({"host": "elsewhere", "heartbeat": 4e9}, "live"),
        ({"left": True}, "crashed"),
        ({"pid": "none"}, "live"),  # by its heartbeat
        ({"pid": 2**70, "process_start": None}, "live"),
    ],
)
def test_status_follows_from_the_owner(
    make_writer: MakeWriter, tmp_path: Path, changes: dict[str, Any], status: str
) -> None:
    make_writer()
    owner_of(tmp_path / "run", **changes)
    assert open_run(tmp_path / "run").status == status


def test_a_lock_is_free_again_after_a_failed_creation(make_writer: MakeWriter, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="layer"):
        RunWriter.create(tmp_path / "run", name="r", config={}, layout=outline(layers=3), streams=[fast()])
    assert make_writer().append("fast", 0, {})


# --- killed writers, children, file systems without locks -------------------------------------------------

FIRST = """
import os, sys, time
from pathlib import Path
from depthscope.store import RunWriter
from tests.store.runs import fast, outline
writer = RunWriter.create(Path(sys.argv[1]), name="r", config={}, layout=outline(), streams=[fast()])
for step in range(5):
    assert writer.append("fast", step, {"loss": step})
"""
CHILD_THAT_STAYS = """
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.close(1)
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_a_child_of_a_killed_writer_does_not_keep_the_run_locked(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FIRST + CHILD_THAT_STAYS, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        child = int(writer.stdout.readline())
        writer.kill()
    try:
        os.kill(child, 0)  # a data loader's worker that outlives the training process
        with RunWriter.resume(tmp_path / "run", fsync=False) as resumed:
            assert resumed.append("fast", 5, {"loss": 5.0})
    finally:
        os.kill(child, signal.SIGKILL)
    assert open_run(tmp_path / "run")["loss"].values.tolist() == list(range(6))


def test_a_second_process_cannot_resume_and_the_first_goes_on(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    writer = make_writer()
    assert writer.append("fast", 0, {"loss": 0.0})
    resuming = SECOND.replace(
        'RunWriter.create(Path(sys.argv[1]), name="second", config={}, layout=outline(), streams=[fast()])',
        "RunWriter.resume(Path(sys.argv[1]), step=0)",
    )
    said = subprocess.run(
        [sys.executable, "-c", resuming, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert f"process {os.getpid()} on {socket.gethostname()}" in said
    for step in range(1, 60):
        assert writer.append("fast", step, {"loss": step})
    writer.close()
    run = open_run(tmp_path / "run")
    assert run["loss"].values.tolist() == list(range(60))
    assert (run.attempts, run.status) == ((), "finished")


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without flock."""

    def refuse(*given: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr("depthscope.store.lock.fcntl.flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_the_heartbeat_refuses_a_second_writer(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    writer.append("fast", 0, {"loss": 1.0})
    with pytest.raises(RunLocked, match=f"{tmp_path / 'run'} is being written by this very process"):
        RunWriter.resume(tmp_path / "run")
    assert writer.append("fast", 1, {"loss": 1.0})


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize(
    "owner",
    [
        {"pid": 2**22 + 1, "process_start": 1},  # no such process
        {"process_start": 1},  # the pid came round again
        {"boot_id": "before the reboot", "heartbeat": 4e9},
        {"host": "elsewhere", "heartbeat": 0},
    ],
)
def test_without_locks_a_dead_writer_does_not_block_a_resume(tmp_path: Path, owner: dict[str, Any]) -> None:
    subprocess.run(
        [sys.executable, "-c", FIRST + "os._exit(0)", str(tmp_path / "run")], check=True, timeout=60
    )
    owner_of(tmp_path / "run", **owner)
    with RunWriter.resume(tmp_path / "run", fsync=False) as writer:
        assert writer.append("fast", 5, {"loss": 5.0})
        assert open_run(tmp_path / "run").status == "live"


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_writer_that_lives_elsewhere_blocks_a_resume(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", FIRST + "os._exit(0)", str(tmp_path / "run")], check=True, timeout=60
    )
    owner_of(tmp_path / "run", host="elsewhere", heartbeat=4e9, start=time.time() - 300)
    with pytest.raises(RunLocked, match=r"process \d+ on elsewhere, for 5 min; stop it"):
        RunWriter.resume(tmp_path / "run")


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_writer_that_was_taken_over_writes_nothing_more(
    make_writer: MakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was suspended for so long that another process took the run for dead."""
    monkeypatch.setenv("DEPTHSCOPE_STRICT", "0")
    writer = make_writer()
    writer.append("fast", 0, {"loss": 1.0})
    assert writer.flush()
    owner_of(tmp_path / "run", token="another")
    committed = (tmp_path / "run" / "rank00000" / "data.zarr" / "zarr.json").read_bytes()
    writer.append("fast", 1, {"loss": 1.0})
    assert not writer.flush()
    assert not writer.append("fast", 2, {"loss": 1.0})
    writer.close()
    assert (tmp_path / "run" / "rank00000" / "data.zarr" / "zarr.json").read_bytes() == committed
    assert "taken over by another process" in caplog.text


def test_a_creation_that_was_killed_is_no_obstacle(tmp_path: Path) -> None:
    """Killed after the logs were made and before the first commit."""
    code = FIRST.replace(
        "from depthscope.store import RunWriter", "from depthscope.store import RunWriter, commit"
    )
    code = code.replace("writer =", "commit.Committer.commit = lambda self: os._exit(0)\nwriter =")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, timeout=60)
    assert list((tmp_path / "run" / "rank00000" / "tail").glob("*.log"))
    RunWriter.create(
        tmp_path / "run", name="r", config={}, layout=outline(), streams=[fast()], fsync=False
    ).close()
