"""The pyramid: every level against numpy on the raw rows, through the writer, on disk and on reading."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from depthscope.store import ArraySpec, Codec, RunWriter, StreamSpec, open_run
from depthscope.store.bins import merge_bins, reduce_rows
from depthscope.store.level import LEVELS
from depthscope.store.pyramid import Pyramid
from depthscope.store.schema import Field, Schema
from depthscope.store.screen import Screen
from tests.store.runs import LAYERS, MakeWriter, outline

Array = npt.NDArray[Any]


def by_numpy(values: Array) -> Array:
    """Return mean, min, max and the count of non-finite values of rows [bins, n, ...], from their definitions."""
    values = values.astype("f8")
    finite, lacking = np.isfinite(values), np.isnan(values).all(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.where(finite, values, 0).sum(axis=1) / finite.sum(axis=1)
    low = np.where(np.isnan(values), np.inf, values).min(axis=1)
    high = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    low, high = (np.where(lacking, np.nan, edge) for edge in (low, high))
    return np.stack([mean, low, high, np.sum(~finite, axis=1)], axis=1)


def assert_bins(bins: Array, values: Array, size: int, start: int = 0) -> None:
    """Compare bins [n, 4, ...] with the rows that they stand for, bin i with those from `start` + i * size on."""
    values = values[start : start + len(bins) * size]
    scale = max(1e-30, float(np.abs(values[np.isfinite(values)]).max(initial=0)))
    whole = len(values) // size
    for found, block in (
        (bins[:whole], values[: whole * size].reshape(whole, size, *values.shape[1:])),
        (bins[whole:], values[None, whole * size :]),
    ):
        if len(found):
            expected = by_numpy(block)
            np.testing.assert_allclose(found[:, 0] / scale, expected[:, 0] / scale, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(found[:, 1:], expected[:, 1:])


rows = hnp.arrays(
    np.float32,
    st.tuples(st.integers(0, 300), st.just(2)),
    elements=st.one_of(
        st.floats(-(2.0**99), 2.0**99, width=32), st.sampled_from([np.nan, np.inf, -np.inf, 1.0, -1.0])
    ),
    fill=st.sampled_from([0.5, np.nan]),
)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 40), st.integers(1, 9))
def test_bins_of_bins_are_bins_of_the_rows(values: Array, size: int, factor: int) -> None:
    bins = reduce_rows(values, size)
    assert_bins(bins, values, size)
    counts = np.minimum(len(values) - np.arange(0, len(values), size), size)
    merged, merged_counts = merge_bins(bins, counts, factor)
    assert_bins(merged, values, size * factor)
    assert merged_counts.sum() == len(values)


def noise(count: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows of 4 layers over many orders of magnitude, with NaN and infinities here and there."""
    random = np.random.default_rng(seed)
    values = random.lognormal(0, 4, (count, LAYERS)).astype("f4") * random.choice([-1, 1], (count, LAYERS))
    for value, share in ((np.nan, 0.05), (np.inf, 0.001), (-np.inf, 0.001)):
        values[random.random(values.shape) < share] = value
    return np.asarray(values, dtype=np.float32)


ARRAYS = [
    ArraySpec(name="write_rms", dims=("layer",), shape=(LAYERS,)),
    ArraySpec(name="grad_write_rms", dims=("layer",), shape=(LAYERS,)),
    ArraySpec(name="loss", dtype="f8"),
]


def fields(arrays: list[ArraySpec] = ARRAYS) -> tuple[Field, ...]:
    return Schema.of("fast", arrays).fields


def recorded(count: int) -> dict[str, Array]:
    return {
        "step": np.arange(count) * 10,
        "wall_time": np.arange(count, dtype="f8"),
        "write_rms": noise(count),
        "grad_write_rms": noise(count, seed=1),
        "loss": np.linspace(5, 1, count),
    }


def part(values: dict[str, Array], low: int, high: int) -> dict[str, Array]:
    return {name: column[low:high] for name, column in values.items()}


def stored(pyramid: Pyramid, folder: Path, rows: int) -> dict[str, Array]:
    """Write the pyramid and return each array as zarr reads it, by path below ``pyramid/fast``."""
    import zarr

    pyramid.write(fsync=False)
    nodes = dict(pyramid.describe(rows))
    pyramid.committed()
    found = {}
    for path, text in nodes.items():
        if json.loads(text)["node_type"] == "array" and not path.endswith("stat"):
            found[path.removeprefix("pyramid/fast/")] = np.asarray(
                zarr.open_array(folder / path, mode="r")[...]
            )
    return found


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=12))
def test_every_level_is_what_numpy_says_however_the_rows_come(sizes: list[int]) -> None:
    values = recorded(sum(sizes))
    with tempfile.TemporaryDirectory() as folder:
        pyramid = Pyramid(Path(folder), "fast", outline(), Codec())
        row, found = 0, {}
        for count in sizes:
            pyramid.take(row, fields(), part(values, row, row + count))
            found = stored(pyramid, Path(folder), row + count)
            row += count
        for level, size in LEVELS.items():
            if row < size:
                assert f"{level}/loss" not in found
                continue
            for name in ("write_rms", "grad_write_rms", "loss"):
                assert len(found[f"{level}/{name}"]) == row // size
                assert_bins(found[f"{level}/{name}"], values[name], size)
            assert (
                found[f"{level}/step_start"].tolist() == values["step"][: row // size * size : size].tolist()
            )
            assert found[f"{level}/step_end"].tolist() == values["step"][size - 1 :: size].tolist()


def test_derived_quantities_have_levels_of_their_own(tmp_path: Path) -> None:
    values = recorded(2100)
    pyramid = Pyramid(tmp_path, "fast", outline(states=(True, True, False, True)), Codec())
    for low in range(0, 2100, 700):
        pyramid.take(low, fields(), part(values, low, low + 700))
    found = stored(pyramid, tmp_path, 2100)
    with np.errstate(all="ignore"):
        product = values["write_rms"] * values["grad_write_rms"]
    for level, size in LEVELS.items():
        assert_bins(found[f"{level}/grad_relative"], product, size)
        assert found[f"{level}/grad_state_rms"][:, 3, 2].tolist() == [size] * (2100 // size)
        np.testing.assert_array_equal(
            found[f"{level}/grad_state_rms"][:, :, 0], found[f"{level}/grad_write_rms"][:, :, 0]
        )


def test_one_row_stands_out_at_every_level(tmp_path: Path) -> None:
    values = recorded(4096)
    values["write_rms"] = np.ones((4096, LAYERS), "f4")
    values["write_rms"][3001, 1], values["write_rms"][1234, 2] = 1e6, -3.0
    values["write_rms"][77, 3] = np.inf
    pyramid = Pyramid(tmp_path, "fast", outline(), Codec())
    pyramid.take(0, fields(), values)
    found = stored(pyramid, tmp_path, 4096)
    for level, size in LEVELS.items():
        bins = found[f"{level}/write_rms"]
        assert np.flatnonzero(bins[:, 2, 1] == 1e6).tolist() == [3001 // size]
        assert np.flatnonzero(bins[:, 1, 2] == -3).tolist() == [1234 // size]
        assert np.flatnonzero(bins[:, 2, 3] == np.inf).tolist() == [77 // size]
        assert bins[77 // size, 3, 3] == 1
        assert bins[77 // size, 0, 3] == 1.0  # the mean is of finite values


@pytest.mark.parametrize("seam", [0, 5, 31, 32, 100, 2047, 2048, 5000, 9000])
def test_what_is_pending_is_derived_again_from_the_rows(tmp_path: Path, seam: int) -> None:
    """After a restart, or a rewind from row 9000, the levels go on as if nothing had happened."""
    values, nodes = recorded(12_000), {}
    before = Pyramid(tmp_path, "fast", outline(), Codec())
    for low in range(0, 9000, 1000):
        before.take(low, fields(), part(values, low, low + 1000))
        stored(before, tmp_path, low + 1000)
    nodes = {path: json.loads(text) for path, text in before.describe(9000)}
    after = Pyramid(tmp_path, "fast", outline(), Codec())
    after.rebuild_from(seam, fields(), lambda name, low, high: values[name][low:high], nodes)
    for level, size in LEVELS.items():
        assert len(stored(after, tmp_path, seam)[f"{level}/loss"]) == seam // size
    changed = {name: np.concatenate([column[:seam], column[::-1][seam:]]) for name, column in values.items()}
    for low in range(seam, 12_000, 800):
        after.take(low, fields(), part(changed, low, low + 800))
    found = stored(after, tmp_path, 12_000)
    for level, size in LEVELS.items():
        for name in ("write_rms", "loss"):
            assert len(found[f"{level}/{name}"]) == 12_000 // size
            assert_bins(found[f"{level}/{name}"], changed[name], size)


def test_a_run_without_a_pyramid_gets_one_and_damaged_bins_are_computed_again(tmp_path: Path) -> None:
    values = recorded(9000)
    read = lambda name, low, high: values[name][low:high]
    first = Pyramid(tmp_path, "fast", outline(), Codec())
    first.rebuild_from(9000, fields(), read, {})
    found = stored(first, tmp_path, 9000)
    nodes = {path: json.loads(text) for path, text in first.describe(9000)}
    assert_bins(found["L1/write_rms"], values["write_rms"], 32)
    (tmp_path / "pyramid" / "fast" / "L1" / "write_rms" / "c.0.0.0").write_bytes(b"damaged")
    (tmp_path / "pyramid" / "fast" / "L2" / "loss" / "c.0.0").unlink()
    second = Pyramid(tmp_path, "fast", outline(), Codec())
    second.rebuild_from(9000, fields(), read, nodes)
    again = stored(second, tmp_path, 9000)
    assert found.keys() == again.keys()
    assert_bins(again["L2/loss"], values["loss"], 256)


def test_an_array_that_comes_late_lacks_the_rows_before(tmp_path: Path) -> None:
    values = recorded(5000)
    pyramid = Pyramid(tmp_path, "fast", outline(), Codec())
    pyramid.take(0, fields(ARRAYS[:1]), part(values, 0, 3000))
    stored(pyramid, tmp_path, 3000)
    pyramid.take(3000, fields(), part(values, 3000, 5000))
    found = stored(pyramid, tmp_path, 5000)
    late = values["loss"].copy()
    late[:3000] = np.nan
    for level, size in LEVELS.items():
        bins = found[f"{level}/loss"]
        bins[:, 3][np.isnan(bins[:, 3])] = size  # in chunks that are not there
        assert_bins(bins, late, size)


def test_a_rewind_to_before_an_array_came_keeps_it_without_values(tmp_path: Path) -> None:
    values = recorded(40_000)
    pyramid = Pyramid(tmp_path, "fast", outline(), Codec())
    pyramid.take(0, fields(ARRAYS[:2]), part(values, 0, 30_000))
    pyramid.take(30_000, fields(), part(values, 30_000, 40_000))
    stored(pyramid, tmp_path, 40_000)
    nodes = {path: json.loads(text) for path, text in pyramid.describe(40_000)}
    values["loss"][:30_000] = np.nan
    again = Pyramid(tmp_path, "fast", outline(), Codec())
    again.rebuild_from(5000, fields(), lambda name, low, high: values[name][low:high], nodes)
    found = stored(again, tmp_path, 5000)
    for level, size in LEVELS.items():
        assert found[f"{level}/loss"][:, 3].tolist() == [size] * (5000 // size)
        assert_bins(found[f"{level}/write_rms"], values["write_rms"], size)


# --- reading ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 6000),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 60),
    st.tuples(*[st.floats(0, 1)] * 3),
)
def test_columns_are_exact_whatever_the_range_and_however_far_the_levels_are(
    count: int, begin: float, end: float, columns: int, reached: tuple[float, ...]
) -> None:
    values = noise(count)
    low, high = sorted((int(begin * count), int(end * count)))
    levels = {
        size: (int(share * (count // size)), lambda a, b, s=size: reduce_rows(values[a * s : b * s], s))
        for size, share in zip(LEVELS.values(), reached, strict=True)
    }
    bins, edges = Screen(lambda a, b: values[a:b], levels).read(low, high, columns)
    assert len(bins) <= columns
    if high == low:
        assert len(bins) == 0
        return
    assert 2 * len(bins) + 1 >= min(columns, high - low)
    assert edges[0] == low
    assert edges[-1] == high
    assert len(set(np.diff(edges)[1:-1].tolist())) <= 1
    for index, found in enumerate(bins):
        assert_bins(found[None], values, edges[index + 1] - edges[index], edges[index])


@pytest.mark.parametrize(
    ("count", "level", "columns"),
    [(1_000_000, 256, 1303), (200_000, 256, 782), (180_000, 32, 1407), (30_000, 32, 938)],
)
def test_a_long_range_is_read_from_the_coarsest_level_that_fills_the_screen(
    count: int, level: int, columns: int
) -> None:
    asked: dict[int, list[tuple[int, int]]] = {1: [], **{size: [] for size in LEVELS.values()}}

    def reader(size: int) -> Any:
        def read(low: int, high: int) -> Array:
            asked[size].append((low, high))
            return np.zeros((high - low, 4)) if size > 1 else np.zeros(high - low)

        return read

    levels = {size: (count // size, reader(size)) for size in LEVELS.values()}
    bins, _ = Screen(reader(1), levels).read(0, count, 1500)
    assert len(bins) == columns
    assert asked[level] == [(0, count // level)]
    read = {size: sum(high - low for low, high in spans) for size, spans in asked.items() if size != level}
    assert read[2048] == 0
    assert read[1] < 32
    assert read.get(32, 0) < 8 or level == 32


def test_every_reader_sees_the_same_columns_live_and_finished(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    values = noise(5000)
    writer = make_writer(streams=[StreamSpec(name="fast", arrays=ARRAYS, chunk_rows=64)])
    for step, row in enumerate(values):
        writer.append("fast", step, {"write_rms": row, "grad_write_rms": row, "loss": step})
    run = open_run(tmp_path / "run")
    live = run.read("write_rms", columns=70)
    writer.close()
    finished = run.read("write_rms", columns=70)
    np.testing.assert_array_equal(live["step_start"], finished["step_start"])
    np.testing.assert_allclose(live, finished, rtol=1e-5)
    size = int(finished["step"].values[1])
    assert_bins(finished.values, values, size)
    with np.errstate(all="ignore"):
        assert_bins(run.read("grad_relative", columns=70).values, values * values, size)
    some = run.read("write_rms", layers=[3], columns=70)
    np.testing.assert_array_equal(some.values[:, :, 0], finished.values[:, :, 2])


def test_xarray_sees_the_levels_with_their_labels(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(600):
        writer.append("fast", step * 10, {"write_rms": np.full(LAYERS, step), "loss": step})
    writer.close()
    with xr.open_datatree(tmp_path / "run" / "rank00000" / "data.zarr", engine="zarr") as tree:
        level = tree["pyramid/fast/L2"].to_dataset().load()
        assert level["write_rms"].dims == ("bin", "stat", "layer")
        assert level["layer"].values.tolist() == [1, 2, 3, 4]
        assert level["loss"].sel(stat="mean").values.tolist() == [127.5, 383.5]
        assert level["loss"].sel(stat="max").values.tolist() == [255.0, 511.0]
        assert level["step_start"].values.tolist() == [0, 2560]
        assert level["step_end"].values.tolist() == [2550, 5110]
        assert {"step_start", "step_end"} <= set(level.coords)
        layout = tree["pyramid/fast"].attrs["multiscales"]["layout"]
        assert [entry["asset"] for entry in layout] == ["L1", "L2"]
        assert layout[1]["derived_from"] == "L1"
        assert layout[1]["transform"] == {"scale": [256.0]}
        assert "L3" not in tree["pyramid/fast"].children


def test_a_stream_called_pyramid_is_refused() -> None:
    with pytest.raises(ValueError, match="holds the bins of all streams"):
        StreamSpec(name="pyramid")


def test_bins_that_do_not_fit_their_rows_are_named(tmp_path: Path) -> None:
    from depthscope.store import CorruptRun

    with RunWriter.create(
        tmp_path / "run",
        name="r",
        config={},
        layout=outline(),
        streams=[StreamSpec(name="fast", arrays=ARRAYS, chunk_rows=64)],
        fsync=False,
    ) as writer:
        for step in range(64):
            writer.append("fast", step, {"loss": step})
    root = tmp_path / "run" / "rank00000" / "data.zarr" / "zarr.json"
    said = json.loads(root.read_text())
    said["consolidated_metadata"]["metadata"]["pyramid/fast/L1/loss"]["shape"][0] = 3
    root.write_text(json.dumps(said))
    with pytest.raises(CorruptRun, match="pyramid/fast/L1/loss has 3 bins"):
        open_run(tmp_path / "run").read("loss", columns=2)
