"""A real kill -9 of a writer with two streams that are flushed at different times."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from depthscope.store import open_run

WRITER = """
import sys, threading, time
from pathlib import Path
import numpy as np
from depthscope.store import RunWriter, StreamSpec
from tests.store.runs import LAYERS, fast, outline, slow

writer = RunWriter.create(Path(sys.argv[1]), name="r", config={}, layout=outline(),
                          streams=[fast(16), slow(8)], flush_seconds=0.05)
step = 0
print("ready", flush=True)
while True:
    values = {"loss": step, "write_rms": np.full(LAYERS, step)}
    if step > 100:
        values["late"] = step
    assert writer.append("fast", step, values)
    if step % 3 == 0:
        assert writer.append("slow", step, {"depth_attention": np.full((LAYERS + 1, 3), step % 1000)})
    print(step, flush=True)
    step += 1
    if step % 7 == 0:
        time.sleep(0.002)
"""


@pytest.mark.parametrize("seed", range(6))
def test_kill_loses_no_accepted_row(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        run = open_run(path)
        assert run.status == "live"
        time.sleep(random.Random(seed).uniform(0.1, 0.6))
        os.kill(writer.pid, signal.SIGKILL)
        said = writer.stdout.read().split("\n")
    accepted = int(said[-2]) if len(said) > 1 else -1

    for opened in (run, open_run(path)):
        assert opened.status == "crashed"
        count = opened.rows("fast")
        assert count >= accepted + 1
        assert opened["loss"].values.tolist() == list(range(count))
        assert opened["write_rms"].values[:, 0].tolist() == list(range(count))
        binned = opened.read("loss", columns=4)
        np.testing.assert_array_equal(binned.sel(stat="max"), binned["step_end"])
        steps = np.arange(0, opened.rows("slow") * 3, 3)
        assert len(steps) >= accepted // 3 + 1
        np.testing.assert_array_equal(opened["depth_attention"]["step"].values, steps)
        np.testing.assert_array_equal(opened["depth_attention"].values[:, 0, 0], steps % 1000)
        if count > 101:
            assert opened["late"].values[101:].tolist() == list(range(101, count))
    with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
        committed = tree["fast"].sizes["step"]
        assert tree["fast"]["loss"].values.tolist() == list(range(committed))
        assert tree["slow"]["step"].values.tolist() == list(range(0, 3 * tree["slow"].sizes["step"], 3))
        if committed >= 32:
            level = tree["pyramid/fast/L1"].to_dataset()
            bins = np.arange(0, committed // 32 * 32, 32)
            assert level["step_start"].values.tolist() == bins.tolist()
            assert level["loss"].sel(stat="mean").values.tolist() == (bins + 15.5).tolist()
