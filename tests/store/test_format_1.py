"""Stores that early versions of format 1 wrote, byte for byte, are read by every later one."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from depthscope.store import RunWriter, check_run, open_run
from tests.store.fixtures.write_format_1 import (
    LAYERS,
    SOURCES,
    STORES,
    Frozen,
    layout,
    write_rms,
)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Frozen:
    return STORES[request.param]


def unpacked(store: Frozen, folder: Path) -> Path:
    with tarfile.open(store.archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "run"


@pytest.fixture
def frozen(store: Frozen, tmp_path: Path) -> Path:
    return unpacked(store, tmp_path)


def test_the_archives_stay_small() -> None:
    assert sum(store.archive.stat().st_size for store in STORES.values()) < 200_000


def test_what_the_run_is(store: Frozen, frozen: Path) -> None:
    run = open_run(frozen)
    assert (run.name, run.status, run.last_step) == ("frozen", "crashed", store.end - 1)
    assert run.config == {"seed": 7, "kind": "Block AttnRes", "model": {"width": 64}}
    assert (run.tags, run.versions["torch"]) == (("format 1",), "2.13.0")
    assert run.layout == layout()
    assert run.streams == {"fast": 1, "slow": 10, "evaluation": 1}
    assert run.missing == {"fresh_share": "not asked for"}
    assert run.attempts == ((1, store.rewind, store.rewind),)
    assert run.gaps == ()


def test_every_row_has_its_known_value(store: Frozen, frozen: Path) -> None:
    run, steps = open_run(frozen), range(store.end)
    assert run.steps("fast").tolist() == list(steps)
    expected = np.stack([write_rms(step, int(step >= store.rewind)) for step in steps])
    np.testing.assert_array_equal(run["write_rms"].values, expected)
    np.testing.assert_array_equal(run["loss"].values, [4 - step / 64 for step in steps])
    np.testing.assert_array_equal(run["tokens"].values, [4096.0 * step for step in steps])
    missing = np.isnan(run["nonfinite"].values).all(1)
    assert np.flatnonzero(missing).tolist() == [step for step in steps if step % 10 == 7]
    late = run["val/late"].values
    assert np.isnan(late[:80]).all()
    assert late[80:].tolist() == list(range(80, store.end))
    mix = run["depth_attention"]
    assert mix["step"].values.tolist() == list(range(0, store.end, 10))
    assert mix.sizes == {"step": store.end // 10, "target": LAYERS + 1, "source": SOURCES}
    np.testing.assert_array_equal(
        mix.values[:, 5, 1], np.array([step % 256 / 256 for step in range(0, store.end, 10)], "f2")
    )
    assert mix["source_name"].values.tolist() == ["embedding", "block 1", "block 2"]
    assert run["validation"].values.tolist() == [4 - (store.committed - 1) / 32, 4 - (store.end - 1) / 32]


def test_bins_and_derived_quantities(store: Frozen, frozen: Path) -> None:
    run = open_run(frozen)
    for columns in (2, 11, 40, 500):
        bins = run.read("tokens", columns=columns)
        first, last = bins["step_start"].values, bins["step_end"].values
        assert (first[0], last[-1]) == (0, store.end - 1)
        assert first[1:].tolist() == (last[:-1] + 1).tolist()
        for stat, expected in (("mean", (first + last) / 2), ("min", first), ("max", last)):
            assert bins.sel(stat=stat).values.tolist() == (4096.0 * expected).tolist()
        lacking = run.read("nonfinite", columns=columns).sel(stat="nonfinite").values[:, 0]
        assert lacking.tolist() == [
            sum(s % 10 == 7 for s in range(a, b + 1)) for a, b in zip(first, last, strict=True)
        ]
    share = run["write_share"].values[0]
    np.testing.assert_allclose(share, np.arange(1, LAYERS + 1) ** 2 / 91, rtol=1e-6)


def test_the_earlier_attempt(store: Frozen, frozen: Path) -> None:
    earlier = open_run(frozen, attempt=1)
    expected = np.stack([write_rms(step, 0) for step in range(store.first_end)])
    np.testing.assert_array_equal(earlier["write_rms"].values, expected)
    assert earlier["validation"].values.tolist() == [4 - (store.first_end - 1) / 32]


def test_other_readers_see_the_committed_rows(store: Frozen, frozen: Path) -> None:
    with xr.open_datatree(frozen / "rank00000" / "data.zarr", engine="zarr") as tree:
        assert tree["fast"].to_dataset()["step"].values.tolist() == list(range(store.committed))
        assert tree["fast"].to_dataset()["tokens"].values.tolist() == [
            4096.0 * step for step in range(store.committed)
        ]


def test_it_is_sound_and_goes_on(store: Frozen, frozen: Path) -> None:
    assert [check for check in check_run(frozen) if not check.passed] == []
    with RunWriter.resume(frozen, layout=layout(), fsync=False) as writer:
        assert writer.append("fast", store.end, {"tokens": 1.0})
    run = open_run(frozen)
    assert run["tokens"].values.tolist() == [*(4096.0 * step for step in range(store.end)), 1.0]
    assert run.status == "finished"


def test_the_levels_have_their_known_values(tmp_path: Path) -> None:
    store = STORES["format_1_with_levels"]
    with xr.open_datatree(unpacked(store, tmp_path) / "rank00000" / "data.zarr", engine="zarr") as tree:
        for level, size in (("L1", 32), ("L2", 256), ("L3", 2048)):
            tokens = tree[f"pyramid/fast/{level}"].to_dataset()["tokens"]
            first = np.arange(store.committed // size) * size
            for stat, offset in (("mean", (size - 1) / 2), ("min", 0), ("max", size - 1)):
                assert tokens.sel(stat=stat).values.tolist() == (4096.0 * (first + offset)).tolist()
