"""A store that was written by the first version of format 1, byte for byte, is read by every later one."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from depthscope.store import RunWriter, check_run, open_run
from tests.store.fixtures.write_format_1 import (
    ARCHIVE,
    COMMITTED,
    END,
    FIRST_END,
    LAYERS,
    REWIND,
    SOURCES,
    layout,
    write_rms,
)


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "run"


def attempt_of(step: int) -> int:
    return 0 if step < REWIND else 1


def test_the_archive_stays_small() -> None:
    assert ARCHIVE.stat().st_size < 200_000


def test_what_the_run_is(frozen: Path) -> None:
    run = open_run(frozen)
    assert (run.name, run.status, run.last_step) == ("frozen", "crashed", END - 1)
    assert run.config == {"seed": 7, "kind": "Block AttnRes", "model": {"width": 64}}
    assert (run.tags, run.versions["torch"]) == (("format 1",), "2.13.0")
    assert run.layout == layout()
    assert run.streams == {"fast": 1, "slow": 10, "evaluation": 1}
    assert run.missing == {"fresh_share": "not asked for"}
    assert run.attempts == ((1, REWIND, REWIND),)
    assert run.gaps == ()


def test_every_row_has_its_known_value(frozen: Path) -> None:
    run, steps = open_run(frozen), range(END)
    assert run.steps("fast").tolist() == list(steps)
    expected = np.stack([write_rms(step, attempt_of(step)) for step in steps])
    np.testing.assert_array_equal(run["write_rms"].values, expected)
    np.testing.assert_array_equal(run["loss"].values, [4 - step / 64 for step in steps])
    np.testing.assert_array_equal(run["tokens"].values, [4096.0 * step for step in steps])
    missing = np.isnan(run["nonfinite"].values).all(1)
    assert np.flatnonzero(missing).tolist() == [step for step in steps if step % 10 == 7]
    late = run["val/late"].values
    assert np.isnan(late[:80]).all()
    assert late[80:].tolist() == list(range(80, END))
    mix = run["depth_attention"]
    assert mix["step"].values.tolist() == list(range(0, END, 10))
    assert mix.sizes == {"step": END // 10, "target": LAYERS + 1, "source": SOURCES}
    np.testing.assert_array_equal(
        mix.values[:, 5, 1], np.array([step / 256 for step in range(0, END, 10)], "f2")
    )
    assert mix["source_name"].values.tolist() == ["embedding", "block 1", "block 2"]
    assert run["validation"].values.tolist() == [4 - (COMMITTED - 1) / 32, 4 - (END - 1) / 32]


def test_bins_and_derived_quantities(frozen: Path) -> None:
    run = open_run(frozen)
    bins = run.read("tokens", columns=11)
    assert bins.sel(stat="mean").values.tolist() == [4096.0 * (10 * i + 4.5) for i in range(11)]
    share = run["write_share"].values[0]
    np.testing.assert_allclose(share, np.arange(1, LAYERS + 1) ** 2 / 91, rtol=1e-6)


def test_the_earlier_attempt(frozen: Path) -> None:
    earlier = open_run(frozen, attempt=1)
    expected = np.stack([write_rms(step, 0) for step in range(FIRST_END)])
    np.testing.assert_array_equal(earlier["write_rms"].values, expected)
    assert earlier["validation"].values.tolist() == [4 - (FIRST_END - 1) / 32]


def test_other_readers_see_the_committed_rows(frozen: Path) -> None:
    with xr.open_datatree(frozen / "rank00000" / "data.zarr", engine="zarr") as tree:
        assert tree["fast"].to_dataset()["step"].values.tolist() == list(range(COMMITTED))
        assert tree["fast"].to_dataset()["tokens"].values.tolist() == [
            4096.0 * step for step in range(COMMITTED)
        ]


def test_it_is_sound_and_goes_on(frozen: Path) -> None:
    assert [check for check in check_run(frozen) if not check.passed] == []
    with RunWriter.resume(frozen, layout=layout(), fsync=False) as writer:
        assert writer.append("fast", END, {"tokens": 1.0})
    run = open_run(frozen)
    assert run["tokens"].values.tolist() == [*(4096.0 * step for step in range(END)), 1.0]
    assert run.status == "finished"
