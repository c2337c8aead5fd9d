"""The log: whatever happens to its end, what is read is a prefix of what was accepted."""

from __future__ import annotations

import linecache
import os
import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depthscope.store import Run, RunWriter, open_run
from depthscope.store.tail import Moved, TailIndex
from tests.store.runs import LAYERS, MakeWriter, fast, outline

ROWS = 23
COMMITTED = 16


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 23 rows, 16 of them committed, that was copied while it was written."""
    folder = tmp_path_factory.mktemp("unfinished")
    with RunWriter.create(
        folder / "run", name="r", config={}, layout=outline(), streams=[fast(COMMITTED)], fsync=False
    ) as writer:
        for step in range(ROWS):
            writer.append("fast", step, row(step))
        wait_for_commit(open_run(folder / "run"))
        shutil.copytree(folder / "run", folder / "copy")
    return folder / "copy"


def wait_for_commit(run: Run) -> None:
    for _ in range(1000):
        if run._follower.snapshot().commit.streams["fast"].rows == COMMITTED:
            return
    pytest.fail("no commit")


def row(step: int) -> dict[str, Any]:
    values = {"loss": step, "write_rms": np.full(LAYERS, step), "tokens": step}
    return {**values, "late": step} if step >= 20 else values


def rows_read(path: Path) -> int:
    """Count the rows that are read, after checking that each is the one that was written."""
    run = open_run(path)
    count = run.rows("fast")
    assert run["loss"].values.tolist() == list(range(count))
    assert run["write_rms"].values[:, -1].tolist() == list(range(count))
    assert run.steps("fast").tolist() == list(range(count))
    return count


def copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    (log,) = (target / "rank00000" / "tail").glob("fast.*.log")
    return log


def test_the_copy_holds_all_rows(unfinished: Path) -> None:
    assert rows_read(unfinished) == ROWS
    assert open_run(unfinished)["late"].values[20:].tolist() == [20.0, 21.0, 22.0]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_any_truncation_yields_a_prefix(unfinished: Path, tmp_path: Path, share: float) -> None:
    log = copied(unfinished, tmp_path / "cut")
    size = int(share * log.stat().st_size)
    with open(log, "r+b") as file:
        file.truncate(size)
    count = rows_read(tmp_path / "cut")
    assert COMMITTED <= count <= ROWS
    assert (count == ROWS) == (size == (unfinished / "rank00000" / "tail" / log.name).stat().st_size)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_changed_byte_yields_a_prefix(unfinished: Path, tmp_path: Path, share: float, flip: int) -> None:
    log = copied(unfinished, tmp_path / "bad")
    content = bytearray(log.read_bytes())
    content[int(share * len(content))] ^= flip
    log.write_bytes(content)
    assert COMMITTED <= rows_read(tmp_path / "bad") < ROWS


def test_a_run_copied_without_its_logs_has_its_committed_rows(unfinished: Path, tmp_path: Path) -> None:
    log = copied(unfinished, tmp_path / "without")
    log.unlink()
    assert rows_read(tmp_path / "without") == COMMITTED


@pytest.mark.parametrize("at", range(0, 90, 4))
def test_an_interrupt_anywhere_in_append_loses_no_accepted_row(
    make_writer: MakeWriter, tmp_path: Path, at: int
) -> None:
    """Ctrl-C raises between any two lines of the writer; here at the `at`-th line after the 14th row."""
    writer = make_writer()
    accepted: list[int] = []

    def append(step: int) -> None:
        if writer.append("fast", step, row(step)):
            accepted.append(step)

    for step in range(14):
        append(step)
    lines = 0

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if "/depthscope/store/" not in frame.f_code.co_filename:
            return None
        # A trace function can raise where no signal can: at a `try`, or between the body of a `with` and its exit.
        source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not source.startswith(("with ", "try:")):
            lines += 1
            if lines >= at * 4:
                raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        for step in range(14, 30):
            append(step)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    for step in range(30, 40):
        append(step)
    run = open_run(tmp_path / "run")
    for _ in range(2):
        assert run.steps("fast").tolist() in (accepted, _with_one_more(accepted, run.steps("fast").tolist()))
        assert run["loss"].values.tolist() == run.steps("fast").tolist()
        writer.close()
    assert run.status == "finished"


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_write_that_is_interrupted_counts_only_when_it_is_whole(
    make_writer: MakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    writer, real = make_writer(), os.writev
    for step in range(3):
        writer.append("fast", step, row(step))

    def interrupted(file: int, parts: list[Any]) -> int:
        content = b"".join(parts)
        os.write(file, content[: int(share * len(content))])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "writev", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append("fast", 3, row(3))
    monkeypatch.setattr(os, "writev", real)
    run = open_run(tmp_path / "run")
    kept = [0, 1, 2, 3] if share == 1 else [0, 1, 2]
    assert run["loss"].values.tolist() == kept
    for step in range(20, 24):  # with another array, so that frames have another size
        assert writer.append("fast", step, row(step))
    for opened in (run, open_run(tmp_path / "run")):
        assert opened["loss"].values.tolist() == [*kept, 20, 21, 22, 23]
    writer.close()
    assert run["loss"].values.tolist() == [*kept, 20, 21, 22, 23]


def test_a_snapshot_whose_log_is_gone_is_noticed(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(5):
        writer.append("fast", step, row(step))
    rank, run = tmp_path / "run" / "rank00000", open_run(tmp_path / "run")
    old = run._follower.snapshot()
    writer.flush()
    writer.append("fast", 5, row(5))
    with pytest.raises(Moved):
        old.read(old.arrays("fast")["loss"], 0, 5)
    tails = TailIndex(rank / "tail")
    with pytest.raises(Moved):
        tails.refresh(old.commit, tails.files())
    assert run["loss"].values.tolist() == [0, 1, 2, 3, 4, 5]


def _with_one_more(accepted: list[int], found: list[int]) -> list[int]:
    """A row may be in the log although `append` was interrupted before it could say so."""
    extra = sorted(set(found) - set(accepted))
    return sorted([*accepted, *extra]) if len(extra) == 1 else accepted
