"""A disk that is full, read-only or gone: training goes on, one warning, a counted gap, nothing committed lost."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from depthscope.store import ArraySpec, RunWriter, StreamSpec, open_run
from depthscope.store.files import replace_file
from depthscope.store.trouble import Trouble
from tests.store.runs import LAYERS, MakeWriter, fast, outline, slow

WIDE = 256
SIZE = 4 * 2**20


def mount(folder: Path) -> bool:
    """Mount a tmpfs of 4 MiB; False where that is not allowed."""
    folder.mkdir(exist_ok=True)
    typed = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if os.geteuid() or shutil.which("mount") is None:
        return False
    return subprocess.run(typed, check=False, capture_output=True).returncode == 0


@dataclass
class Disk:
    """A small disk; `free` makes room on it."""

    folder: Path
    free: Callable[[], None]


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


class Quota:
    """Stands in for the kernel below a folder: writes past its size are short, then refused."""

    def __init__(self, folder: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.size, self.room = str(folder), size, 0
        self._write, self._writev = os.write, os.writev
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "writev", self.writev)

    def fits(self, handle: int, length: int) -> int:
        """Return how many of so many bytes may be written; counts files again only when the room seems used up."""
        if not os.readlink(f"/proc/self/fd/{handle}").startswith(self.folder):
            return length
        if self.room < length:
            self.room = self.size - sum(size_of(path) for path in Path(self.folder).rglob("*"))
        allowed = max(0, min(length, self.room))
        self.room -= allowed
        return allowed

    def write(self, handle: int, content: Any) -> int:
        allowed = self.fits(handle, len(content))
        if content and not allowed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(handle, memoryview(content)[:allowed])

    def writev(self, handle: int, parts: list[Any]) -> int:
        return self.write(handle, b"".join(map(bytes, parts)))


def disks() -> list[str]:
    """The stand-in everywhere, and a real small disk where it can be mounted."""
    return ["quota", *(["tmpfs"] if not os.geteuid() and shutil.which("mount") else [])]


@pytest.fixture(params=disks())
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    mounted = request.param == "tmpfs" and mount(folder)
    if not mounted:
        folder.mkdir(exist_ok=True)
        Quota(folder, SIZE, monkeypatch)
    filler = folder / "filler"
    filler.write_bytes(os.urandom(SIZE // 2))
    try:
        yield Disk(folder, filler.unlink)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def wide_streams() -> list[StreamSpec]:
    arrays = [ArraySpec(name="noise", dims=("x",), shape=(WIDE,)), ArraySpec(name="loss", dtype="f8")]
    return [StreamSpec(name="fast", arrays=arrays, chunk_rows=64), slow(8)]


def noise(step: int) -> np.ndarray:
    return np.random.default_rng(step).random(WIDE, "f4")


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_disk_that_fills_up_and_is_freed_keeps_all_rows_but_the_counted_gap(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    path = disk.folder / "run"
    writer = RunWriter.create(
        path, name="r", config={}, layout=outline(), streams=wide_streams(), fsync=False, flush_seconds=0.2
    )
    accepted: list[int] = []
    step = 0
    with caplog.at_level(logging.WARNING):
        while writer.dropped < 40:
            assert step < 6000
            if writer.append("fast", step, {"noise": noise(step), "loss": step}):
                accepted.append(step)
            step += 1
        full_at = step
        # Whoever looks in the meantime sees every accepted row.
        run = open_run(path)
        assert run["loss"].values.tolist() == accepted
        disk.free()
        while step < full_at + 300:
            if writer.append("fast", step, {"noise": noise(step), "loss": step}):
                accepted.append(step)
            step += 1
        writer.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left on device" in caplog.records[0].message
    assert str(path) in caplog.records[0].message
    assert accepted[-250:] == list(range(step - 250, step))
    run = open_run(path)
    assert run.status == "finished"
    assert run["loss"].values.tolist() == accepted
    np.testing.assert_array_equal(run["noise"].values, np.stack([noise(each) for each in accepted]))
    assert sum(gap.rows for gap in run.gaps) == writer.dropped == step - len(accepted)
    for gap in run.gaps:
        assert gap.stream == "fast"
        assert accepted[gap.row - 1] < gap.first_step <= gap.last_step < accepted[gap.row]
        assert gap.rows == gap.last_step - gap.first_step + 1
    with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
        assert tree["fast"].to_dataset()["loss"].values.tolist() == accepted
    assert not list(path.rglob("*.partial"))


FILLS_A_DISK = """
import sys, time
from pathlib import Path
import pytest
from depthscope.store import RunWriter
from tests.store.runs import outline
from tests.store.test_trouble import SIZE, Quota, noise, wide_streams

folder = Path(sys.argv[1])
if sys.argv[2] == "quota":
    Quota(folder, SIZE, pytest.MonkeyPatch())
writer = RunWriter.create(folder / "run", name="r", config={}, layout=outline(), streams=wide_streams(),
                          fsync=False, flush_seconds=0.2)
step = 0
while True:
    said = "accepted" if writer.append("fast", step, {"noise": noise(step), "loss": step}) else "dropped"
    print(said, step, flush=True)
    step += 1
    if said == "dropped":
        time.sleep(0.001)
"""


@pytest.mark.parametrize("dropped", [1, 2, 40])
def test_a_writer_killed_on_a_full_disk_leaves_no_half_row(disk: Disk, dropped: int) -> None:
    kind = "tmpfs" if disk.folder.is_mount() else "quota"
    typed = [sys.executable, "-c", FILLS_A_DISK, str(disk.folder), kind]
    told: list[tuple[str, int]] = []
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            told.append((line.split()[0], int(line.split()[1])))
            if sum(said == "dropped" for said, _ in told) == dropped:
                writer.kill()
        # What was said before the kill came is still in the pipe, but for the row under way.
    assert writer.returncode == -signal.SIGKILL
    accepted = [step for said, step in told if said == "accepted"]
    path = disk.folder / "run"
    run = open_run(path)
    assert run.status == "crashed"
    found = run["loss"].values.tolist()
    assert found in (accepted, [*accepted, told[-1][1] + 1])
    np.testing.assert_array_equal(run["noise"].values, np.stack([noise(int(step)) for step in found]))
    disk.free()
    RunWriter.resume(path, fsync=False).close()
    run = open_run(path)
    assert (run.status, run["loss"].values.tolist()) == ("finished", found)


REFUSALS = {
    "read-only": (errno.EROFS, "Read-only file system", ("open", "writev", "replace")),
    "permission lost": (errno.EACCES, "Permission denied", ("open", "replace")),
    "a disk that fails": (errno.EIO, "Input/output error", ("open", "write", "writev", "replace")),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_disk_that_refuses_for_a_while_is_written_again_when_it_can_be(
    make_writer: MakeWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusal: str,
) -> None:
    number, words, calls = REFUSALS[refusal]
    monkeypatch.setattr("depthscope.store.flush_thread._RETRY_SECONDS", 0.05)
    writer = make_writer(flush_seconds=0.05)
    accepted = [step for step in range(40) if writer.append("fast", step, {"loss": step})]
    assert writer.flush()

    def refuse(*given: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        for call in calls:
            patch.setattr(f"depthscope.store.files.os.{call}", refuse)
        for step in range(40, 140):
            if writer.append("fast", step, {"loss": step}):
                accepted.append(step)
        # A flush is done when all accepted rows are committed.
        assert writer.flush() is (refusal != "permission lost")
    # Where the log still takes rows, none is lost.
    assert writer.dropped == (0 if refusal == "permission lost" else 100)
    accepted += [step for step in range(140, 200) if writer.append("fast", step, {"loss": step})]
    assert accepted[-60:] == list(range(140, 200))
    writer.close()
    warned = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warned) == 1
    assert words in warned[0]
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run["loss"].values.tolist() == accepted
    gaps = [("fast", 40, 40, 139, 100, words)] if writer.dropped else []
    assert [tuple(gap) for gap in run.gaps] == gaps


def delete(path: Path) -> None:
    """Delete a folder into which somebody writes at the same time."""
    while path.exists():
        shutil.rmtree(path, ignore_errors=True)


def test_a_run_that_is_deleted_under_its_writer_does_not_come_back(
    make_writer: MakeWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = make_writer(flush_seconds=0.05)
    for step in range(40):
        assert writer.append("fast", step, {"loss": step})
    writer.flush()
    with caplog.at_level(logging.WARNING):
        delete(tmp_path / "run")
        first = 40
        while writer.append("fast", first, {"loss": first, "new": 1.0}):
            first += 1  # for some milliseconds nobody looks whether the log is still there
        for step in range(first, first + 59):
            assert not writer.append("fast", step, {"loss": step, "new": 1.0})
        assert writer.dropped == 60
        writer.close()
    assert not (tmp_path / "run").exists()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "its folder is gone" in caplog.records[1].message


def test_a_run_that_is_moved_away_and_back_loses_nothing(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(40):
        assert writer.append("fast", step, {"loss": step})
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    for step in range(40, 100):
        assert writer.append("fast", step, {"loss": step})
    assert not writer.flush()
    assert open_run(tmp_path / "elsewhere")["loss"].values.tolist() == list(range(100))
    (tmp_path / "elsewhere").rename(tmp_path / "run")
    for step in range(100, 120):
        assert writer.append("fast", step, {"loss": step})
    writer.close()
    run = open_run(tmp_path / "run")
    assert (run.status, run["loss"].values.tolist()) == ("finished", list(range(120)))


def test_a_run_made_in_the_place_of_a_deleted_one_is_left_alone(
    make_writer: MakeWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = make_writer()
    for step in range(40):
        assert old.append("fast", step, {"loss": step})
    delete(tmp_path / "run")
    new = make_writer(name="new")
    assert new.append("fast", 7, {"loss": 7.0})
    assert not old.flush()
    old.close()
    assert "taken over by another" in caplog.text
    new.close()
    run = open_run(tmp_path / "run")
    assert (run.name, run["loss"].values.tolist(), run.status) == ("new", [7.0], "finished")


def test_logs_that_are_deleted_begin_again(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(20):
        assert writer.append("fast", step, {"loss": step, "write_rms": np.zeros(LAYERS)})
    for log in (tmp_path / "run" / "rank00000" / "tail").iterdir():
        log.unlink()
    for step in range(20, 30):
        assert writer.append("fast", step, {"loss": step})
    wait_until(lambda: open_run(tmp_path / "run").rows("fast") == 30)
    writer.close()
    assert open_run(tmp_path / "run")["loss"].values.tolist() == list(range(30))


def test_a_file_that_cannot_be_replaced_leaves_nothing_that_takes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("depthscope.store.files.os.replace", refuse)
        with pytest.raises(OSError, match="No space"):
            replace_file(tmp_path / "chunk", b"content", fsync=False)
    assert list(tmp_path.iterdir()) == []


def test_one_warning_as_long_as_trouble_lasts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble(tmp_path)
    said = []
    for number in (errno.ENOSPC, errno.EACCES, errno.ENOSPC):
        trouble.met(OSError(number, os.strerror(number)))
        said.append(len(caplog.records))
    trouble.over()
    for number in (errno.ENOSPC, errno.EACCES):  # a disk at its limit comes and goes; another reason is news
        trouble.met(OSError(number, os.strerror(number)))
        trouble.over()
        said.append(len(caplog.records))
    assert said == [1, 1, 1, 1, 2]


def test_a_run_cannot_be_made_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attaching fails early and loudly."""

    def refuse(*given: object, **named: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("depthscope.store.files.os.open", refuse)
    with pytest.raises(OSError, match="Read-only"):
        RunWriter.create(tmp_path / "run", name="r", config={}, layout=outline(), streams=[fast()])
