"""Readers in another process beside a busy writer."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from depthscope.store import open_run

WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from depthscope.store import RunWriter
from tests.store.runs import LAYERS, fast, outline, slow

stop, pause = time.time() + float(sys.argv[2]), float(sys.argv[3])
with RunWriter.create(Path(sys.argv[1]), name="r", config={}, layout=outline(),
                      streams=[fast(16), slow(8)], flush_seconds=0.2, fsync=False) as writer:
    print("ready", flush=True)
    step = 0
    while time.time() < stop:
        writer.append("fast", step, {"loss": step, "write_rms": np.full(LAYERS, step)})
        if step % 5 == 0:
            writer.append("slow", step, {"depth_attention": np.full((LAYERS + 1, 3), step % 1000)})
        step += 1
        if pause:
            time.sleep(pause)
"""


@contextmanager
def writing(path: Path, *, seconds: float, pause: float) -> Iterator[Path]:
    """A writer in another process that waits so many seconds after each step."""
    typed = [sys.executable, "-c", WRITER, str(path), str(seconds), str(pause)]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        yield path
        writer.kill()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    with writing(tmp_path / "run", seconds=12, pause=0.001) as path:
        yield path


def test_xarray_never_fails_and_never_sees_half_a_row(busy: Path) -> None:
    poll_with_xarray(busy, seconds=4)


@pytest.mark.soak
def test_xarray_never_fails_beside_a_saturated_writer(tmp_path: Path) -> None:
    with writing(tmp_path / "run", seconds=60, pause=0) as path:
        poll_with_xarray(path, seconds=20)


def poll_with_xarray(run: Path, *, seconds: float) -> None:
    store, polls, rows = run / "rank00000" / "data.zarr", 0, 0
    stop = time.time() + seconds
    while time.time() < stop:
        with xr.open_datatree(store, engine="zarr") as tree:
            fast, slow = tree["fast"].to_dataset().load(), tree["slow"].to_dataset().load()
            level = tree["pyramid/fast/L1"].to_dataset().load() if "pyramid" in tree.children else None
        count = fast.sizes["step"]
        np.testing.assert_array_equal(fast["step"], np.arange(count))
        np.testing.assert_array_equal(fast["loss"], np.arange(count))
        np.testing.assert_array_equal(fast["write_rms"], np.arange(count)[:, None].repeat(4, 1))
        np.testing.assert_array_equal(slow["depth_attention"][:, 0, 0], slow["step"] % 1000)
        bins = np.arange(0, count // 32 * 32, 32)
        assert (level is None) == (len(bins) == 0)
        if level is not None:
            np.testing.assert_array_equal(level["step_start"], bins)
            np.testing.assert_array_equal(
                level["write_rms"].sel(stat="max"), (bins + 31)[:, None].repeat(4, 1)
            )
        assert fast["layer"].values.tolist() == [1, 2, 3, 4]
        assert slow["target_name"].values[-1] == "output"
        assert count >= rows
        polls, rows = polls + 1, count
    assert polls > 3
    assert rows > 100


def test_open_run_never_fails_and_sees_rows_within_two_seconds(busy: Path) -> None:
    run, polls, rows, versions = open_run(busy), 0, 0, set()
    stop = time.time() + 3
    oldest = 0.0
    while time.time() < stop:
        loss = run["loss"]
        now = time.time()
        count = loss.sizes["step"]
        np.testing.assert_array_equal(loss["step"], np.arange(count))
        np.testing.assert_array_equal(loss, np.arange(count))
        binned = run.read("loss", columns=10)
        assert binned.sizes["step"] <= 10
        slow = run["depth_attention"]
        np.testing.assert_array_equal(slow[:, 0, 0], slow["step"] % 1000)
        if count:
            oldest = max(oldest, now - float(run["fast/wall_time"].values[count - 1]))
        assert count >= rows
        versions.add(run.version())
        polls, rows = polls + 1, count
    assert polls > 3
    assert len(versions) > 20
    assert rows > 100
    assert run.status == "live"
    assert oldest < 2
