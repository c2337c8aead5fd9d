"""A run that is being written opens for anybody: our reader, and plain xarray."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import xarray as xr

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import batches, build, optimizer_of, train


def test_xarray_and_our_reader_see_a_run_under_way_and_after(tmp_path: Path) -> None:
    path = tmp_path / "run"
    model = build("block-attnres:S=3")
    draw, optimizer = batches(), optimizer_of(model)
    with Recorder(model, path, optimizer=optimizer, every={"fast": 1, "slow": 2}) as recorder:
        train(model, 10, draw, optimizer, lambda loss: recorder.step(loss=loss))
        assert recorder._session is not None
        recorder._session.handover.wait(30)
        recorder._session.writer.flush()
        train(model, 4, draw, optimizer, lambda loss: recorder.step(loss=loss))
        sent = time.monotonic()
        while open_run(path).last_step != 13:
            assert time.monotonic() - sent < 2, "a row takes at most 2 s to be visible"
        tree = xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr")
        committed = tree["fast"]["state_rms"]
        live = open_run(path)["state_rms"]
        assert 1 <= len(committed) <= len(live) == 14
        np.testing.assert_array_equal(committed.values, live.values[: len(committed)])
        assert tree["slow"]["depth_attention"].dims == ("step", "target", "source")
        tree.close()
    with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
        run = open_run(path)
        np.testing.assert_array_equal(tree["fast"]["state_rms"].values, run["state_rms"].values)
        np.testing.assert_array_equal(tree["fast"]["step"].values, np.arange(14))
        np.testing.assert_array_equal(tree["slow"]["step"].values, np.arange(0, 14, 2))
        assert tree["fast"]["state_rms"].attrs["formula"] == "rms(s_l)"
        np.testing.assert_array_equal(tree["layer"].values, np.arange(1, 9))


def test_xarray_sees_the_first_rows_within_seconds(tmp_path: Path) -> None:
    """Nobody flushes: the run is young, so its rows do not wait a minute for their first commit."""
    path = tmp_path / "run"
    model = build("prenorm")
    draw, optimizer = batches(), optimizer_of(model)
    with Recorder(model, path, optimizer=optimizer) as recorder:
        train(model, 3, draw, optimizer, lambda loss: recorder.step(loss=loss))
        started = time.monotonic()
        while True:
            with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
                rows = tree["fast"]["state_rms"].values
            if len(rows):
                break
            assert time.monotonic() - started < 20
            time.sleep(0.2)
        np.testing.assert_array_equal(rows, open_run(path)["state_rms"].values[: len(rows)])
