"""The writer's promises to the training loop: cheap, never in the way, never raising."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from depthscope.store import ArraySpec, Coordinate, StreamSpec, open_run
from depthscope.store.commit import Committer
from tests.store.runs import LAYERS, MakeWriter, fast


def test_the_caller_neither_syncs_nor_compresses_nor_commits(
    make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(fsync=True)
    threads: dict[str, set[str]] = {}

    def spy(module: str, name: str) -> None:
        target = f"{module}.{name}"
        package, _, attribute = target.rpartition(".")
        real = getattr(sys.modules[package], attribute)

        def called(*given: object, **named: object) -> object:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return real(*given, **named)

        monkeypatch.setattr(target, called)

    spy("os", "fsync")
    spy("os", "replace")
    spy("depthscope.store.column", "encode_chunk")
    for step in range(100):
        assert writer.append("fast", step, {"loss": step, "new": 1.0})
    writer.flush()
    assert threads == {name: {"depthscope-flush"} for name in ("fsync", "replace", "encode_chunk")}


def test_a_kept_note_is_on_disk_when_the_call_returns(
    make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer()
    writer.annotate("first", "note")
    assert writer.keep_notes()
    # Within the second after it, notes wait for one another.
    writer.annotate("missing", {"rank 1": "was lost"})
    assert writer.keep_notes()
    assert open_run(writer.path).missing == {"rank 1": "was lost"}

    def full(self: Committer) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", full)
        writer.annotate("missing", {"rank 2": "was lost"})
        assert not writer.keep_notes()
    assert writer.keep_notes()
    assert open_run(writer.path).missing == {"rank 1": "was lost", "rank 2": "was lost"}
    writer.close()
    assert not writer.keep_notes()


def test_the_writer_loads_neither_zarr_nor_xarray_nor_torch(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from depthscope.store import RunWriter
from tests.store.runs import fast, outline
with RunWriter.create(Path(sys.argv[1]), name="r", config={}, layout=outline(), streams=[fast()]) as writer:
    for step in range(40):
        writer.append("fast", step, {"loss": 1.0})
print([name for name in ("zarr", "xarray", "pandas", "torch", "dash") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


FULL_DISK = """
import os, resource, sys, time
from pathlib import Path
from depthscope.store import RunWriter, open_run
from tests.store.runs import fast, outline

path = Path(sys.argv[1])
writer = RunWriter.create(path, name="r", config={}, layout=outline(), streams=[fast(64)], fsync=False)
size = lambda: max(file.stat().st_size for file in (path / "rank00000" / "tail").iterdir())
for step in range(20):
    assert writer.append("fast", step, {"loss": step})
# No file may grow beyond the middle of the next row: a write of it comes back short.
resource.setrlimit(resource.RLIMIT_FSIZE, (size() + 40, resource.RLIM_INFINITY))
for step in range(20, 25):
    assert not writer.append("fast", step, {"loss": step})
assert writer.dropped == 5, writer.dropped
assert open_run(path)["loss"].values.tolist() == list(range(20))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for step in range(25, 150):
    assert writer.append("fast", step, {"loss": step})
expected = [*range(20), *range(25, 150)]
assert open_run(path)["loss"].values.tolist() == expected
assert writer.accepted_step == 149
writer.close()
assert open_run(path)["loss"].values.tolist() == expected
assert open_run(path).status == "finished"
"""


def test_a_full_disk_drops_rows_and_training_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be written") == 1


def test_a_flush_that_fails_is_tried_again_and_loses_nothing(
    make_writer: MakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = make_writer()
    real = os.replace
    left = [40]

    def fail_at_first(source: str, target: str) -> None:
        left[0] -= 1
        if left[0] in (39, 30, 22, 12, 3):
            raise OSError(28, "No space left on device", str(target))
        real(source, target)

    for step in range(250):
        writer.append("fast", step, {"loss": step, "tokens": step})
    writer.flush()
    monkeypatch.setattr("depthscope.store.files.os.replace", fail_at_first)
    for step in range(250, 290):  # over row 256, where the scalars' chunks end
        writer.append("fast", step, {"loss": step, "tokens": step, "late": step})
    outcomes = [writer.flush("fast") for _ in range(8)]
    assert outcomes[-1]
    assert not all(outcomes)
    assert "No space left on device" in caplog.text
    writer.close()
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run["loss"].values.tolist() == run["tokens"].values.tolist() == list(range(290))
    assert run["late"].values[250:].tolist() == list(range(250, 290))
    with xr.open_datatree(tmp_path / "run" / "rank00000" / "data.zarr", engine="zarr") as tree:
        assert tree["fast"].to_dataset()["tokens"].values.tolist() == list(range(290))


def test_a_disk_slower_than_the_rows_drops_them_when_memory_is_full(
    make_writer: MakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("depthscope.store.stream._WAITING_BYTES", 0)
    gate = threading.Event()
    real = os.replace
    writer = make_writer()
    monkeypatch.setattr("depthscope.store.files.os.replace", lambda *paths: (gate.wait(20), real(*paths))[1])
    accepted = [step for step in range(200) if writer.append("fast", step, {"loss": step})]
    assert writer.dropped == 200 - len(accepted) > 0
    gate.set()
    writer.close()
    assert open_run(tmp_path / "run")["loss"].values.tolist() == accepted


# --- mistakes of the caller -------------------------------------------------------------------------------


MISTAKES: list[tuple[str, Any, dict[str, Any], str]] = [
    ("fast", 5, {"write_rms": np.zeros(3)}, r"fast/write_rms.*\(3,\).*\(4,\)"),
    ("fast", 5, {"loss": np.zeros(1)}, "fast/loss"),
    ("fast", 5, {"loss": "high"}, "fast/loss"),
    ("fast", 5, {"layer": 1.0}, "is a dim or a coordinate"),
    ("fast", 5, {"metric": "text"}, "not a number"),
    ("fast", 5, {"": 1.0}, "non-empty"),
    ("fast", 1, {"loss": 1.0}, "step 1 after step 3"),
    ("fast", "five", {"loss": 1.0}, "five"),
    ("fats", 5, {"loss": 1.0}, "no stream 'fats'.*fast, slow, evaluation"),
]


@pytest.mark.parametrize(("stream", "step", "values", "message"), MISTAKES)
def test_a_mistake_raises_when_strict(
    make_writer: MakeWriter, tmp_path: Path, stream: str, step: Any, values: dict[str, Any], message: str
) -> None:
    writer = make_writer()
    writer.append("fast", 3, {"loss": 3.0})
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        writer.append(stream, step, values)
    assert writer.append("fast", 7, {"loss": 7.0})
    assert open_run(tmp_path / "run")["loss"].values.tolist() == [3.0, 7.0]


@pytest.mark.parametrize(("stream", "step", "values", "message"), MISTAKES)
def test_a_mistake_is_logged_once_and_never_raises_in_training(
    make_writer: MakeWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stream: str,
    step: Any,
    values: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setenv("DEPTHSCOPE_STRICT", "0")
    writer = make_writer()
    writer.append("fast", 3, {"loss": 3.0, "tokens": 3.0})
    with caplog.at_level(logging.WARNING):
        kept = [writer.append(stream, step, {**values, "tokens": 5.0}) for _ in range(3)]
    assert len(caplog.records) == 1
    assert len(set(kept)) == 1
    assert writer.dropped == (0 if kept[0] else 3)
    assert open_run(tmp_path / "run")["tokens"].values.tolist() == [3.0, *([5.0] * 3 if kept[0] else [])]


def test_a_value_too_large_for_its_type_is_infinite_not_a_warning(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    writer = make_writer()
    assert writer.append("slow", 0, {"depth_attention": np.full((LAYERS + 1, 3), 1e9)})
    assert writer.append("fast", 0, {"loss": 1e300})
    run = open_run(tmp_path / "run")
    assert np.isinf(run["depth_attention"].values).all()
    assert np.isinf(run["loss"].values).all()


def test_none_is_unknown(make_writer: MakeWriter, tmp_path: Path) -> None:
    assert make_writer().append("fast", 0, {"loss": None})
    assert np.isnan(open_run(tmp_path / "run")["loss"].item())


def test_a_new_name_for_every_row_ends_at_a_limit(
    make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("depthscope.store.stream._MOST_ARRAYS", 10)
    writer = make_writer()
    for step in range(6):
        assert writer.append("fast", step, {f"loss at {step}": 1.0})
    with pytest.raises(ValueError, match="is a number part of the name"):
        writer.append("fast", 6, {"loss at 6": 1.0})


def test_after_close_nothing_is_accepted(make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer()
    writer.close()
    writer.close()
    assert writer.closed
    assert writer.flush() is False
    with pytest.raises(RuntimeError, match="closed"):
        writer.append("fast", 0, {})


def test_threads_may_append_at_once(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        barrier.wait()
        for _ in range(200):
            assert writer.append("fast", 0, {name: 1.0})

    threads = [threading.Thread(target=work, args=(f"from {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run = open_run(tmp_path / "run")
    for _ in range(2):
        assert run.rows("fast") == 800
        for i in range(4):
            assert np.nansum(run[f"from {i}"].values) == 200
        writer.close()


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ([fast(), fast()], "taken twice"),
        ([StreamSpec(name="layer")], "taken twice"),
        ([StreamSpec(name="s", arrays=[ArraySpec(name="a", dims=("layer",), shape=(3,))])], "size 4.*and 3"),
        (
            [
                StreamSpec(
                    name="s",
                    arrays=[ArraySpec(name="a", dims=("x",), shape=(n,)) for n in (3,)]
                    + [ArraySpec(name="b", dims=("x",), shape=(2,))],
                )
            ],
            "size 3 in 'a' and 2 in 'b'",
        ),
        ([StreamSpec(name="s", arrays=[ArraySpec(name="layer_name")])], "a dim or a coordinate"),
        (
            [StreamSpec(name="s", coordinates=[Coordinate(name="a/b", dim="x", values=[1])])],
            "no usable name",
        ),
    ],
)
def test_streams_that_xarray_would_refuse_are_refused_at_once(
    make_writer: MakeWriter, streams: list[StreamSpec], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_writer(streams=streams)


@pytest.mark.parametrize(
    "declared",
    [
        {"name": "step"},
        {"name": ""},
        {"name": "x" * 300},
        {"name": "a", "dtype": "i4"},
        {"name": "a", "dims": ("x",)},
        {"name": "a", "dims": ("x", "x"), "shape": (2, 2)},
        {"name": "a", "dims": ("step",), "shape": (2,)},
        {"name": "a", "dims": ("x",), "shape": (0,)},
    ],
)
def test_arrays_that_cannot_be_stored_cannot_be_declared(declared: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        ArraySpec(**declared)


@pytest.mark.parametrize(
    "name", ["val/loss", ".hidden", "__x", "zarr.json", "c", "ä b", "a%2Fb", "..", "loss 2"]
)
def test_any_metric_name_reads_back_as_itself(make_writer: MakeWriter, tmp_path: Path, name: str) -> None:
    writer = make_writer()
    writer.append("evaluation", 0, {name: 1.0})
    writer.flush()
    writer.append("evaluation", 1, {name: 2.0})
    run = open_run(tmp_path / "run")
    assert name in run.quantities
    assert run[name].values.tolist() == [1.0, 2.0]
    assert run[f"evaluation/{name}"].values.tolist() == [1.0, 2.0]
    with xr.open_datatree(tmp_path / "run" / "rank00000" / "data.zarr", engine="zarr") as tree:
        (variable,) = tree["evaluation"].data_vars.values()
        assert variable.values.tolist() == [1.0]


def test_metrics_never_clash_with_the_dims_of_other_metrics(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    writer.append("evaluation", 0, {"a_0": 1.0, "a": np.zeros(3)})
    writer.append("evaluation", 1, {"b": np.zeros((2, 3))})
    with pytest.raises(ValueError, match="is a dim"):
        writer.append("evaluation", 1, {"b_1": 1.0})
    writer.flush()
    with xr.open_datatree(tmp_path / "run" / "rank00000" / "data.zarr", engine="zarr") as tree:
        assert set(tree["evaluation"].data_vars) == {"a_0", "a", "b"}
        assert tree["evaluation"].to_dataset()["b"].shape == (2, 2, 3)


def test_files_stay_few(make_writer: MakeWriter, tmp_path: Path) -> None:
    """A scalar's chunk spans 16 chunks of the stream; a large array's is cut to about a MiB."""
    writer = make_writer(
        streams=[
            StreamSpec(
                name="fast",
                arrays=[ArraySpec(name="loss"), ArraySpec(name="wide", dims=("x",), shape=(2**17,))],
                chunk_rows=16,
            )
        ]
    )
    for step in range(64):
        writer.append("fast", step, {"loss": 1.0, "wide": np.zeros(2**17)})
    writer.close()
    store = tmp_path / "run" / "rank00000" / "data.zarr" / "fast"
    assert [path.name for path in (store / "loss").glob("c.*")] == ["c.0"]
    assert len(list((store / "wide").glob("c.*"))) == 32
    assert not list((tmp_path / "run").rglob("*.partial"))
