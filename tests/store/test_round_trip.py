"""What was appended is what is read, whatever was flushed, extended or reopened in between."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depthscope.store import ArraySpec, Run, RunWriter, StreamSpec, open_run
from tests.store.runs import LAYERS, MakeWriter, fast, outline

NAMES = ("loss", "write_rms", "validation", "val/acc", "per_head")
SHAPES: dict[str, tuple[int, ...]] = {"write_rms": (LAYERS,), "per_head": (2, 3)}
finite = st.floats(width=32, allow_nan=False)

appends = st.tuples(
    st.sampled_from(["fast", "slow"]),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from(NAMES), finite, max_size=4),
)
operations = st.lists(
    st.one_of(appends, appends, appends, st.sampled_from(["flush fast", "flush slow", "flush all", "look"])),
    max_size=40,
)


class Model:
    """The rows as they were given, the slow and obvious way."""

    def __init__(self) -> None:
        self.steps: dict[str, list[int]] = {"fast": [], "slow": []}
        self.rows: dict[str, list[dict[str, Any]]] = {"fast": [], "slow": []}

    def check(self, run: Run, streams: tuple[str, ...] = ("fast", "slow")) -> None:
        for stream in streams:
            rows = self.rows[stream]
            assert run.rows(stream) == len(rows)
            assert run.steps(stream).tolist() == self.steps[stream]
            for name in {name for row in rows for name in row}:
                got = run[f"{stream}/{name}"]
                missing = np.full(SHAPES.get(name, ()), np.nan)
                want = np.array([row.get(name, missing) for row in rows])
                np.testing.assert_array_equal(got.values, want.astype(got.dtype))
                assert got["step"].values.tolist() == self.steps[stream]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=operations, chunk_rows=st.sampled_from([1, 3, 4, 16]))
def test_any_sequence_of_appends_flushes_and_new_names_reads_back_equal(
    operations: list[Any], chunk_rows: int
) -> None:
    folder = Path(tempfile.mkdtemp())
    arrays = [
        ArraySpec(name="loss", dtype="f8"),
        ArraySpec(name="write_rms", dims=("layer",), shape=(LAYERS,)),
    ]
    streams = [
        StreamSpec(name="fast", arrays=arrays, chunk_rows=chunk_rows),
        StreamSpec(name="slow", chunk_rows=2 * chunk_rows),
    ]
    model = Model()
    try:
        writer = RunWriter.create(
            folder / "run", name="r", config={}, layout=outline(), streams=streams, fsync=False
        )
        run = open_run(folder / "run")
        with writer:
            for operation in operations:
                if operation == "look":
                    model.check(run)
                elif isinstance(operation, str):
                    stream = operation.removeprefix("flush ")
                    assert writer.flush(None if stream == "all" else stream)
                else:
                    stream, ahead, values = operation
                    steps = model.steps[stream]
                    step = (steps[-1] if steps else 0) + ahead
                    row = {name: np.full(SHAPES.get(name, ()), value) for name, value in values.items()}
                    assert writer.append(stream, step, row)
                    steps.append(step)
                    model.rows[stream].append(row)
            model.check(run)
            model.check(open_run(folder / "run"))
        model.check(run)
        model.check(open_run(folder / "run"))
        assert run.status == "finished"
        with xr.open_datatree(folder / "run" / "rank00000" / "data.zarr", engine="zarr") as tree:
            for stream, rows in model.rows.items():
                assert tree[stream].sizes["step"] == len(rows)
                committed = tree[stream].to_dataset()
                for name, values in run.to_datatree()[stream].to_dataset().data_vars.items():
                    np.testing.assert_array_equal(committed[name].values, values.values)
    finally:
        shutil.rmtree(folder)


def test_rows_are_read_at_once_and_finished_runs_hold_no_log(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    run = open_run(tmp_path / "run")
    assert run.last_step is None
    for step in range(5):
        assert writer.append("fast", step, {"loss": step / 2})
        assert run["loss"].values.tolist() == [s / 2 for s in range(step + 1)]
        assert run.last_step == writer.accepted_step == step
    assert open_run(run.path).status == "live"
    writer.close()
    assert run.status == "finished"
    assert run["loss"].values.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert list((tmp_path / "run" / "rank00000" / "tail").iterdir()) == []


def test_rows_that_have_waited_are_committed_without_being_asked(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    writer = make_writer(flush_seconds=0.1)
    writer.append("fast", 0, {"loss": 1.0})
    store = tmp_path / "run" / "rank00000" / "data.zarr"
    for _ in range(100):
        with xr.open_datatree(store, engine="zarr") as tree:
            if tree["fast"].sizes["step"]:
                assert tree["fast"].to_dataset()["loss"].values.tolist() == [1.0]
                return
        writer.wait_closed(0.05)
    pytest.fail("the row was not committed")


def test_a_name_of_two_streams_is_listed_with_the_later_stream(tmp_path: Path) -> None:
    probe = StreamSpec(name="probe", arrays=[ArraySpec(name="loss"), ArraySpec(name="by_token")])
    with RunWriter.create(
        tmp_path / "run", name="run", config={}, layout=outline(), streams=[fast(), probe], fsync=False
    ) as writer:
        writer.append("fast", 0, {"loss": 1.0})
        writer.append("probe", 0, {"loss": 2.0, "by_token": 3.0})
    run = open_run(tmp_path / "run")
    derived = {"grad_state_rms", "grad_relative", "write_share"}
    names = {"write_rms", "grad_write_rms", "loss", "tokens", "probe/loss", "by_token"}
    assert set(run.quantities) == names | derived
    assert [float(run[name][0]) for name in ("loss", "probe/loss", "by_token")] == [1.0, 2.0, 3.0]


def test_the_run_says_what_it_is(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer(name="Übung", tags=("a", "b"), config={"lr": 3e-4, "path": tmp_path, "nan": np.nan})
    run = open_run(tmp_path / "run")
    assert (run.name, run.tags, run.config["lr"]) == ("Übung", ("a", "b"), 3e-4)
    assert run.config["path"] == str(tmp_path)
    assert run.config["nan"] == "NaN"
    assert run.streams == {"fast": 1, "slow": 10, "evaluation": 1}
    assert run.layout == outline()
    third = run.sublayers[2]
    assert (third.index, third.name, third.kind, third.transformer_block) == (3, "layers.2", "attention", 2)
    assert run.attempts == ()
    assert set(run.quantities) >= {"loss", "write_rms", "depth_attention", "grad_relative", "write_share"}
    writer.annotate("missing", {"state_rms": "no running sum"})
    writer.annotate("missing", {"outer_energy": "no wide state"})
    assert writer.flush()
    writer.append("fast", 0, {})
    assert writer.flush()
    assert run.missing == {"state_rms": "no running sum", "outer_energy": "no wide state"}
    with pytest.raises(KeyError, match="no running sum"):
        run["state_rms"]
    with pytest.raises(KeyError, match="did you mean write_rms"):
        run["write_rsm"]


def test_a_note_is_visible_within_two_seconds(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    run = open_run(tmp_path / "run")
    for value in range(3):
        writer.annotate("report", value)
    for _ in range(40):
        if run.notes.get("report") == 2:
            return
        writer.wait_closed(0.05)
    pytest.fail(f"notes are {run.notes}")


def test_arrays_carry_labels_and_attributes(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    weights = np.full((LAYERS + 1, 3), 1 / 3)
    writer.append("slow", 0, {"depth_attention": weights})
    writer.append("fast", 0, {"write_rms": np.ones(LAYERS)})
    run = open_run(tmp_path / "run")
    write = run["write_rms"]
    assert write.dims == ("step", "layer")
    assert write["layer"].values.tolist() == [1, 2, 3, 4]
    assert write["layer_kind"].values.tolist() == ["attention", "mlp"] * 2
    assert write.attrs["units"] == "activation"
    assert write.attrs["formula"] == "rms(f_l)"
    attention = run["depth_attention"]
    assert attention.dims == ("step", "target", "source")
    assert attention["target_name"].values[-1] == "output"
    assert attention["target"].values.tolist() == [1, 2, 3, 4, 5]
    assert attention["source_name"].values.tolist() == ["embedding", "block 1", "block 2"]
    np.testing.assert_allclose(attention.values[0], weights, rtol=1e-3)
    assert run.read("write_rms", layers=[2, 4])["layer_name"].values.tolist() == ["layers.1", "layers.3"]
    assert run.read("depth_attention", layers=5)["target_name"].values.tolist() == ["output"]
    with pytest.raises(ValueError, match="layers 1 to 4"):
        run.read("write_rms", layers=[5])
    with pytest.raises(ValueError, match="no layer"):
        run.read("loss", layers=[1])


def test_a_new_metric_is_nan_before_it_came(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(300):
        writer.append("fast", step, {"loss": 1.0} if step < 290 else {"loss": 1.0, "accuracy": 0.5})
        if step == 295:
            writer.flush()
    run = open_run(tmp_path / "run")
    for _ in range(2):
        values = run["accuracy"].values
        assert np.isnan(values[:290]).all()
        assert values[290:].tolist() == [0.5] * 10
        assert run["accuracy"].attrs["long_name"] == "accuracy"
        writer.close()


def test_start_and_stop_are_steps(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(0, 100, 10):
        writer.append("fast", step, {"loss": step})
    run = open_run(tmp_path / "run")
    assert run.read("loss", start=15, stop=50)["step"].values.tolist() == [20, 30, 40]
    assert run.read("loss", start=90).values.tolist() == [90.0]
    assert run.read("loss", start=1000).values.tolist() == []


def test_a_bare_name_means_the_first_stream_that_has_it(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    writer.append("fast", 0, {"loss": 1.0})
    writer.append("evaluation", 0, {"loss": 2.0})
    run = open_run(tmp_path / "run")
    assert run["loss"].item() == 1.0
    assert run["evaluation/loss"].item() == 2.0


def test_version_changes_with_every_row_and_commit_and_only_then(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    writer = make_writer()
    run = open_run(tmp_path / "run")
    seen = {run.version()}
    for act in (
        lambda: writer.append("fast", 0, {}),
        lambda: writer.append("slow", 0, {}),
        lambda: writer.flush("fast"),
        lambda: writer.append("fast", 1, {}),
        lambda: writer.close(),
    ):
        act()
        assert run.version() not in seen
        assert run.version() == run.version()
        seen.add(run.version())
