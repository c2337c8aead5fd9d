"""The pyramid after a run went on, was rewound or recovered: always the bins of the rows that are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from depthscope.store import ArraySpec, Codec, RunWriter, StreamSpec, check_run, open_run, recover_run
from tests.store.runs import LAYERS, MakeWriter

STREAM = StreamSpec(
    name="fast",
    arrays=[
        ArraySpec(name="write_rms", dims=("layer",), shape=(LAYERS,), mantissa_bits=10),
        ArraySpec(name="loss"),
    ],
    chunk_rows=64,
    codec=Codec(name="lz4"),
)


def write(writer: RunWriter, steps: range, sign: float = 1.0) -> None:
    for step in steps:
        row = {"loss": sign * step, "write_rms": np.full(LAYERS, sign * step)}
        if step >= 2500:
            row["late"] = sign * step
        assert writer.append("fast", step, row)


def check(path: Path, attempt: Any = None) -> None:
    """Hold every level, as xarray sees it, and the columns that a viewer reads against the rows."""
    run = open_run(path) if attempt is None else open_run(path, attempt=attempt)
    if attempt is None:
        assert all(entry.passed for entry in check_run(path))
        with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
            fast = tree["fast"].to_dataset().load()
            for level, size in (("L1", 32), ("L2", 256), ("L3", 2048)):
                count = fast.sizes["step"] // size
                if f"/pyramid/fast/{level}" not in tree.groups:
                    assert count == 0
                    continue
                bins = tree[f"pyramid/fast/{level}"].to_dataset().load()
                assert bins.sizes["bin"] == count
                for name in ("loss", "write_rms"):
                    rows = fast[name].values[: count * size].reshape(count, size, *fast[name].shape[1:])
                    np.testing.assert_array_equal(bins[name].sel(stat="min"), rows.min(axis=1))
                    np.testing.assert_array_equal(bins[name].sel(stat="max"), rows.max(axis=1))
                    np.testing.assert_allclose(
                        bins[name].sel(stat="mean"), rows.mean(axis=1, dtype="f8"), 1e-5
                    )
    for name in ("loss", "write_rms"):
        rows = run[name].values
        for columns in (1, 3, 40, 100):
            shown = run.read(name, columns=columns)
            first = np.searchsorted(run[name]["step"], shown["step_start"])
            np.testing.assert_array_equal(shown.sel(stat="max"), np.maximum.reduceat(rows, first))
            np.testing.assert_array_equal(shown.sel(stat="min"), np.minimum.reduceat(rows, first))


@pytest.fixture
def run(make_writer: MakeWriter, tmp_path: Path) -> Path:
    with make_writer(streams=[STREAM]) as writer:
        write(writer, range(5000))
    return tmp_path / "run"


def resumed(run: Path, **options: Any) -> RunWriter:
    return RunWriter.resume(run, fsync=False, **options)


@pytest.fixture(params=[0, 17, 31, 32, 1000, 2048, 2600, 4999])
def step(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_levels_follow_a_rewind_to_any_row(run: Path, step: int) -> None:
    with resumed(run, step=step) as writer:
        check(run)
        write(writer, range(step, step + 2100), sign=-1)
        assert writer.flush()
        check(run)
    check(run)
    assert open_run(run)["write_rms"].attrs["mantissa_bits"] == 10


def test_a_run_that_goes_on_has_one_pyramid(run: Path) -> None:
    for begin in range(5000, 5400, 77):
        with resumed(run) as writer:
            write(writer, range(begin, begin + 77))
        check(run)


DIES = """
import os, sys
from tests.store.runs import outline
from tests.store.test_pyramid_resume import STREAM, write
from depthscope.store import RunWriter

writer = RunWriter.create(sys.argv[1], name="r", config={}, layout=outline(), streams=[STREAM], fsync=False)
write(writer, range(300))
os._exit(9)
"""


def test_recovered_rows_are_in_the_levels(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(tmp_path / "run")], check=False, timeout=100)
    assert open_run(tmp_path / "run").status == "crashed"
    recover_run(tmp_path / "run")
    check(tmp_path / "run")
    assert open_run(tmp_path / "run").rows("fast") == 300


def test_an_earlier_attempt_keeps_its_bins(run: Path) -> None:
    before = open_run(run).read("loss", columns=40)
    with resumed(run, step=1000) as writer:
        write(writer, range(1000, 4000), sign=-1)
    check(run, attempt=1)
    xr.testing.assert_equal(open_run(run, attempt=1).read("loss", columns=40), before)
