"""A run opened for writing again: closed, stopped or killed, at its end or at an earlier step."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from depthscope.store import (
    ArraySpec,
    Coordinate,
    CorruptRun,
    NotARun,
    RunLocked,
    RunWriter,
    SchemaError,
    StreamSpec,
    check_run,
    open_run,
    recover_run,
)
from depthscope.store.cleaning import leftovers
from depthscope.store.commit import read_commit
from depthscope.store.follow import Follower
from depthscope.store.schema import Schema
from depthscope.store.segment import Segment, segment_path
from depthscope.store.snapshot import Snapshot
from tests.store.runs import LAYERS, MakeWriter, fast, outline, slow

Resume = Callable[..., RunWriter]


@pytest.fixture
def resume(tmp_path: Path) -> Iterator[Resume]:
    """Open the run `run` again; closed at the end of the test."""
    made: list[RunWriter] = []

    def again(**options: Any) -> RunWriter:
        made.append(RunWriter.resume(tmp_path / "run", **{"fsync": False, **options}))
        return made[-1]

    yield again
    for writer in made:
        writer.close()


def write(writer: RunWriter, steps: range, shift: float = 0.0) -> None:
    """Append rows whose values follow from step and `shift`; a slow row every third step."""
    for step in steps:
        row = {"loss": step + shift, "tokens": step + shift, "write_rms": np.full(LAYERS, step + shift)}
        assert writer.append("fast", step, row)
        if step % 3 == 0:
            mix = np.full((LAYERS + 1, 3), step % 50)
            assert writer.append("slow", step, {"depth_attention": mix})


def check(path: Path, steps: range, values: list[float], **options: Any) -> None:
    """Hold what `open_run` shows against the rows that were written."""
    run = open_run(path, **options)
    assert run.steps("fast").tolist() == list(steps)
    assert run["loss"].values.tolist() == run["tokens"].values.tolist() == values
    assert run["write_rms"].values[:, 0].tolist() == values
    slow_steps = [step for step in steps if step % 3 == 0]
    assert run["depth_attention"]["step"].values.tolist() == slow_steps
    assert run["depth_attention"].values[:, 0, 0].tolist() == [step % 50 for step in slow_steps]


def check_zarr(path: Path, steps: range, values: list[float]) -> None:
    with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
        assert tree["fast"].to_dataset()["step"].values.tolist() == list(steps)
        for name in ("loss", "tokens"):
            assert tree["fast"].to_dataset()[name].values.tolist() == values
        assert tree["slow"].to_dataset()["step"].values.tolist() == [step for step in steps if step % 3 == 0]


KILLED = """
import os, sys
from pathlib import Path
from depthscope.store import RunWriter, StreamSpec
from depthscope.store.cleaning import leftovers
from depthscope.store.commit import read_commit
from depthscope.store.follow import Follower
from depthscope.store.schema import Schema
from depthscope.store.segment import Segment, segment_path
from depthscope.store.snapshot import Snapshot
from tests.store.runs import fast, outline, slow
from tests.store.test_resume import write
writer = RunWriter.create(Path(sys.argv[1]), name="r", config={}, layout=outline(),
                          streams=[fast(), slow()], flush_seconds=60)
write(writer, range(20))
writer.flush()
write(writer, range(20, 45))
os.kill(os.getpid(), 9)
"""


def kill_one(path: Path) -> None:
    """Leave a run whose writer was killed after 45 steps, 20 of them committed at least."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_a_closed_run_goes_on_where_it_ended(make_writer: MakeWriter, resume: Resume, tmp_path: Path) -> None:
    first = make_writer()
    write(first, range(37))
    first.close()
    writer = resume()
    assert open_run(tmp_path / "run").status == "live"
    assert writer.accepted_step == 36
    check(tmp_path / "run", range(37), list(range(37)))
    write(writer, range(37, 300))
    check(tmp_path / "run", range(300), list(range(300)))
    writer.close()
    check(tmp_path / "run", range(300), list(range(300)))
    check_zarr(tmp_path / "run", range(300), list(range(300)))
    run = open_run(tmp_path / "run")
    assert (run.status, run.attempts) == ("finished", ())


def test_a_killed_run_is_recovered_at_once_and_goes_on(resume: Resume, tmp_path: Path) -> None:
    kill_one(tmp_path / "run")
    writer = resume()
    # Every accepted row is in the arrays before the first new one.
    check_zarr(tmp_path / "run", range(45), list(range(45)))
    assert writer.recovered is not None
    assert not writer.recovered.closed
    write(writer, range(45, 60))
    writer.close()
    check(tmp_path / "run", range(60), list(range(60)))
    check_zarr(tmp_path / "run", range(60), list(range(60)))


def test_a_recovery_that_is_killed_can_be_done_again(tmp_path: Path) -> None:
    """Killed before each of its file replacements in turn, the recovery loses nothing."""
    kill_one(tmp_path / "run")
    code = """
import os, sys
from pathlib import Path
import depthscope.store.files as files
left, real = int(sys.argv[2]), os.replace
def replace(*paths):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
    real(*paths)
os.replace = replace
from depthscope.store import RunWriter
RunWriter.resume(Path(sys.argv[1]), step=30)
"""
    kills = 0
    for replacements in itertools.count(0, 5):
        path = Path(shutil.copytree(tmp_path / "run", tmp_path / f"after {replacements}"))
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), str(replacements)], check=False, timeout=60
        )
        if done.returncode == 0:
            break
        kills += 1
        assert done.returncode == -signal.SIGKILL
        steps = range(30) if open_run(path).attempts else range(45)
        check(path, steps, list(steps))
        RunWriter.resume(path, step=30).close()
        check(path, range(30), list(range(30)))
        check_zarr(path, range(30), list(range(30)))
        check(path, range(45), list(range(45)), attempt=1)
        assert not list(path.rglob("*.partial"))
    assert kills > 5


@pytest.mark.parametrize("step", [0, 1, 15, 16, 17, 100, 255, 256, 257, 299])
def test_rows_from_the_resumed_step_on_become_an_earlier_attempt(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path, step: int
) -> None:
    path = tmp_path / "run"
    first = make_writer()
    write(first, range(300))
    first.close()
    writer = resume(step=step)
    assert writer.accepted_step == (step - 1 if step else None)
    left = leftovers(path, read_commit(path / "rank00000" / "data.zarr"))
    assert [file for file in left if file.suffix != ".partial"] == []  # the heartbeat writes meanwhile
    check(path, range(step), list(range(step)))
    check_zarr(path, range(step), list(range(step)))
    write(writer, range(step, 320), shift=0.5)
    values = [*range(step), *(s + 0.5 for s in range(step, 320))]
    check(path, range(320), values)
    writer.close()
    check(path, range(320), values)
    check_zarr(path, range(320), values)
    run = open_run(path)
    assert run.attempts == ((1, step, step),)
    check(path, range(300), list(range(300)), attempt=1)
    assert run.attempt(1).status == "finished"
    assert run.attempt(1).read("loss", columns=10).sizes["step"] == 10


def test_many_attempts_stay_apart(make_writer: MakeWriter, resume: Resume, tmp_path: Path) -> None:
    path, length = tmp_path / "run", 0
    make_writer().close()
    values: list[float] = []
    expected = []
    for number, step in enumerate((0, 200, 90, 95, 20, 21, 40)):
        if values:
            expected.append(list(values))
        writer = resume(step=step)
        length = step + 150
        write(writer, range(step, length), shift=number / 8)
        values = values[:step] + [s + number / 8 for s in range(step, length)]
        writer.close()
    run = open_run(path)
    attempts = [entry.step for entry in run.attempts]
    assert attempts == [90, 95, 20, 21, 40]
    assert [entry.epoch for entry in run.attempts] == [1, 2, 3, 4, 5]
    kept = expected[1:]  # the step after 150 rows was no rewind
    for number, before in enumerate(kept, start=1):
        check_values(path, before, attempt=number)
    check_values(path, values)
    check_values(path, values, attempt=6)
    with pytest.raises(ValueError, match=r"attempts 1 to 6; asked for 7"):
        open_run(path, attempt=7)


def check_values(path: Path, values: list[float], **options: Any) -> None:
    assert open_run(path, **options)["loss"].values.tolist() == values


def test_an_attempt_stays_the_same_for_an_open_reader_when_the_run_goes_back_again(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    writer = make_writer()
    write(writer, range(100))
    writer.rewind(50)
    write(writer, range(50, 90), shift=0.5)
    earlier = open_run(tmp_path / "run", attempt=1)
    now = open_run(tmp_path / "run")
    assert earlier["loss"].values.tolist() == list(range(100))
    writer.rewind(10)
    write(writer, range(10, 40), shift=0.25)
    writer.flush()
    assert earlier["loss"].values.tolist() == list(range(100))
    assert now["loss"].values.tolist() == [*range(10), *(s + 0.25 for s in range(10, 40))]
    assert now.attempt(2)["loss"].values.tolist() == [*range(50), *(s + 0.5 for s in range(50, 90))]


def test_a_read_of_an_attempt_that_a_rewind_crosses_is_done_again(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    """The chunks that both attempts shared are replaced between the snapshot and the read."""
    writer = make_writer()
    write(writer, range(100))
    writer.rewind(50)
    follower = Follower(tmp_path / "run", 1)
    reads = 0

    def read(snapshot: Snapshot) -> list[float]:
        nonlocal reads
        reads += 1
        if reads == 1:
            writer.rewind(10)
            write(writer, range(10, 60), shift=0.25)
            writer.flush()
        values: list[float] = snapshot.read(snapshot.arrays("fast")["loss"], 0, 100).tolist()
        return values

    assert follower.consistently(read) == list(range(100))
    assert reads == 2


def test_an_array_that_came_late_goes_on_before_its_first_row(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    writer = make_writer()
    for step in range(600):
        new = {"late": float(step), "vector": np.full(3, step)} if step >= 400 else {}
        writer.append("fast", step, {"loss": step, **new})
    writer.close()
    writer = resume(step=100)
    writer.append("fast", 100, {"loss": 100, "late": 7.0, "vector": np.full(3, 7)})
    for finished in (False, True):
        late = open_run(tmp_path / "run")["late"].values
        assert np.isnan(late[:100]).all()
        assert late[100:].tolist() == [7.0]
        assert open_run(tmp_path / "run")["vector"].values[100:].tolist() == [[7.0] * 3]
        if not finished:
            writer.close()
    with xr.open_datatree(tmp_path / "run" / "rank00000" / "data.zarr", engine="zarr") as tree:
        np.testing.assert_array_equal(tree["fast"].to_dataset()["late"].values, late)
    assert open_run(tmp_path / "run", attempt=1)["late"].values[400:].tolist() == list(range(400, 600))


def test_without_hard_links_an_attempt_is_copied(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("depthscope.store.rewinding.os.link", refuse)
    writer = make_writer()
    write(writer, range(40))
    assert writer.rewind(5)
    assert not writer.rewind(5)
    check(tmp_path / "run", range(40), list(range(40)), attempt=1)


def test_a_rewind_that_the_disk_refuses_leaves_the_run_as_it_was(
    make_writer: MakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer()
    write(writer, range(40))
    writer.flush()

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("depthscope.store.files.os.replace", full)
        with pytest.raises(OSError, match="No space left"):
            writer.rewind(10)
    check(tmp_path / "run", range(40), list(range(40)))
    write(writer, range(40, 50))
    writer.close()
    check(tmp_path / "run", range(50), list(range(50)))
    assert open_run(tmp_path / "run").attempts == ()


def test_a_rewind_into_a_damaged_chunk_is_refused_and_changes_nothing(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    first = make_writer()
    write(first, range(40))
    first.close()
    chunk = tmp_path / "run" / "rank00000" / "data.zarr" / "fast" / "write_rms" / "c.0.0"
    chunk.write_bytes(chunk.read_bytes()[:5])
    with pytest.raises(CorruptRun, match=r"a chunk file is 5 bytes long") as error:
        resume(step=10)
    assert str(tmp_path / "run") in str(error.value)
    run = open_run(tmp_path / "run")
    assert (run.attempts, run["loss"].values.tolist()) == ((), list(range(40)))


def test_streams_that_a_resume_adds_begin_empty(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    first = make_writer()
    write(first, range(20))
    first.close()
    probe = StreamSpec(name="probe", arrays=[ArraySpec(name="rank")], chunk_rows=4)
    wider = StreamSpec(
        name="fast", arrays=[*fast().arrays, ArraySpec(name="new", dims=("layer",), shape=(4,))]
    )
    writer = resume(streams=[wider, slow(), probe], layout=outline())
    writer.append("probe", 20, {"rank": 3.0})
    writer.append("fast", 20, {"new": np.full(4, 2.0)})
    writer.close()
    run = open_run(tmp_path / "run")
    assert run["rank"].values.tolist() == [3.0]
    assert np.isnan(run["new"].values[:20]).all()
    assert run["new"].values[20].tolist() == [2.0] * 4
    assert list(run.streams) == ["fast", "slow", "evaluation", "probe"]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"layout": outline(layers=6)}, "it has 4 sublayers, this model 6"),
        ({"layout": outline(design="hires")}, "design is 'prenorm' in the run and 'hires' now"),
        (
            {
                "streams": [
                    StreamSpec(name="fast", arrays=[ArraySpec(name="write_rms", dims=("layer",), shape=(6,))])
                ]
            },
            r"fast/write_rms has rows of \(layer 4\) f4 in the run and of \(layer 6\) f4 now",
        ),
        (
            {"coordinates": [Coordinate(name="layer_name", dim="layer", values=list("abcd"))]},
            "layer_name is .*layers.0.* in the run and .*'a', 'b'.* now",
        ),
    ],
)
def test_another_model_is_refused_by_what_differs(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path, changes: dict[str, Any], difference: str
) -> None:
    first = make_writer()
    write(first, range(20))
    first.close()
    with pytest.raises(SchemaError, match=difference) as error:
        resume(**changes)
    assert str(tmp_path / "run") in str(error.value)
    assert "Record to another path" in str(error.value)
    check(tmp_path / "run", range(20), list(range(20)))
    assert open_run(tmp_path / "run").status == "finished"
    resume(layout=outline(), streams=[fast(), slow()])  # the same model is welcome


def test_a_run_that_is_written_and_a_folder_without_one_cannot_be_resumed(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    with pytest.raises(NotARun):
        resume()
    assert not (tmp_path / "run").exists()
    writer = make_writer()
    with pytest.raises(RunLocked):
        resume()
    assert writer.append("fast", 0, {"loss": 1.0})


def test_a_stopped_run_is_not_stopped_any_more_when_it_goes_on(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    first = make_writer()
    write(first, range(3))
    first.annotate("stopped", "KeyboardInterrupt")
    first.annotate("found_by", "explicit")
    first.close()
    assert open_run(tmp_path / "run").status == "stopped"
    resume().close()
    run = open_run(tmp_path / "run")
    assert (run.status, run.notes) == ("finished", {"found_by": "explicit"})


def test_a_run_that_was_tampered_with_is_read_but_not_resumed(
    make_writer: MakeWriter, resume: Resume, tmp_path: Path
) -> None:
    """A commit that claims fewer rows would make a recovery delete the others."""
    first = make_writer()
    write(first, range(40))
    first.close()
    root = tmp_path / "run" / "rank00000" / "data.zarr" / "zarr.json"
    root.write_text(root.read_text().replace('"fast":{"rows":40', '"fast":{"rows":10'))
    assert open_run(tmp_path / "run").rows("fast") == 10
    with pytest.raises(ValueError, match="checksum"):
        resume()
    assert os.path.exists(root.parent / "fast" / "write_rms" / "c.2.0")


def test_a_run_that_lost_one_of_its_logs_keeps_the_rows_of_the_others(resume: Resume, tmp_path: Path) -> None:
    kill_one(tmp_path / "run")
    logs = tmp_path / "run" / "rank00000" / "tail"
    for log in logs.glob("fast.*.log"):
        log.unlink()
    before = open_run(tmp_path / "run")
    assert before.rows("slow") == 15
    count = before.rows("fast")
    assert 20 <= count < 45
    assert all(check.passed for check in check_run(tmp_path / "run")) is False
    resume()
    run = open_run(tmp_path / "run")
    assert run.steps("slow").tolist() == list(range(0, 45, 3))
    assert run.steps("fast").tolist() == list(range(count))


def test_rows_that_go_on_from_nothing_are_kept_aside(resume: Resume, tmp_path: Path) -> None:
    """Somebody deleted a log in between: its successor's rows have no place, and are not thrown away."""
    kill_one(tmp_path / "run")
    recover_run(tmp_path / "run")
    schema = Schema.of("fast", fast().arrays)
    path = segment_path(tmp_path / "run" / "rank00000" / "tail", "fast", 99)
    log = Segment(path, 99, schema, 50)
    log.append(50, 0.0, bytes(schema.row_bytes), schema)
    log.close()
    content = path.read_bytes()
    assert open_run(tmp_path / "run").rows("fast") == 45
    writer = resume()
    assert writer.recovered is not None
    assert writer.recovered.damaged == (path,)
    assert Path(f"{path}.damaged").read_bytes() == content
    write(writer, range(45, 60))
    check(tmp_path / "run", range(60), list(range(60)))


def test_a_log_with_a_spoiled_row_is_kept_aside(resume: Resume, tmp_path: Path) -> None:
    kill_one(tmp_path / "run")
    logs = tmp_path / "run" / "rank00000" / "tail"
    newest = max(logs.glob("fast.*.log"))
    content = bytearray(newest.read_bytes())
    content[-20] ^= 255
    newest.write_bytes(content)
    writer = resume()
    assert writer.recovered is not None
    assert [log.name for log in writer.recovered.damaged] == [newest.name]
    assert (logs / f"{newest.name}.damaged").read_bytes() == content
    check_values(tmp_path / "run", [float(step) for step in range(44)])
