"""Binned reading against numpy, and derived quantities against their definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthscope.store import ArraySpec, RunWriter, StreamSpec, open_run
from depthscope.store.bins import bin_rows, reduce_rows
from depthscope.store.derive import derive
from tests.store.runs import LAYERS, MakeWriter, outline

ROWS = 100


def numbers(rows: int = ROWS) -> npt.NDArray[np.float32]:
    """Values over 12 orders of magnitude, with NaN rows, a NaN layer, and infinities."""
    values = np.random.default_rng(0).lognormal(0, 5, (rows, LAYERS)).astype("f4")
    values[10:20] = np.nan
    values[::7, 1] = np.nan
    values[:, 2] = np.nan
    values[55, 3], values[56, 3] = np.inf, -np.inf
    return values


@pytest.fixture
def run_path(make_writer: MakeWriter, tmp_path: Path) -> Path:
    writer = make_writer()
    for step, row in enumerate(numbers()):
        writer.append("fast", step * 10, {"write_rms": row, "loss": step})
    return tmp_path / "run"


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 33, 50, 99, 100, 1500])
@pytest.mark.parametrize("span", [(None, None), (0, 1000), (35, 641), (990, 1000), (500, 500)])
def test_bins_are_what_numpy_says(run_path: Path, columns: int, span: tuple[int | None, int | None]) -> None:
    got = open_run(run_path).read("write_rms", *span, columns=columns)
    steps = np.arange(ROWS) * 10
    start, stop = span[0] or 0, 10**6 if span[1] is None else span[1]
    inside = (steps >= start) & (steps < stop)
    values, steps = numbers()[inside].astype("f8"), steps[inside]
    assert got.dims == ("step", "stat", "layer")
    assert got.sizes["step"] <= columns
    assert got["stat"].values.tolist() == ["mean", "min", "max", "nonfinite"]
    first, last = (np.searchsorted(steps, got[name].values) for name in ("step_start", "step_end"))
    np.testing.assert_array_equal(got["step"].values, got["step_start"].values)
    assert [0, *(last + 1)] == [*first, len(steps)] if len(steps) else len(first) == 0
    assert 2 * got.sizes["step"] >= min(columns, len(steps))
    for index, rows in enumerate(map(slice, first, last + 1)):
        for layer in range(LAYERS):
            given = values[rows, layer]
            known, finite = given[~np.isnan(given)], given[np.isfinite(given)]
            mean, low, high, missing = got.values[index, :, layer]
            assert missing == len(given) - len(finite)
            np.testing.assert_allclose(mean, finite.mean() if len(finite) else np.nan, rtol=1e-6)
            if len(known):
                assert (low, high) == (known.min(), known.max())
            else:
                assert np.isnan([low, high]).all()


def test_no_columns_gives_exact_rows(run_path: Path) -> None:
    got = open_run(run_path).read("write_rms", start=100, stop=200)
    np.testing.assert_array_equal(got.values, numbers()[10:20])
    assert "stat" not in got.dims


def test_a_scalar_is_binned_over_steps_alone(run_path: Path) -> None:
    got = open_run(run_path).read("loss", columns=4)
    assert got.dims == ("step", "stat")
    assert got.sel(stat="mean").values.tolist() == [15.5, 47.5, 79.5, 97.5]
    assert got.sel(stat="max").values.tolist() == [31.0, 63.0, 95.0, 99.0]


def test_no_columns_at_all_is_refused(run_path: Path) -> None:
    with pytest.raises(ValueError, match="columns is 0"):
        open_run(run_path).read("loss", columns=0)


def test_long_ranges_are_read_in_blocks_with_the_same_result(
    run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_run(run_path).read("write_rms", columns=30)
    monkeypatch.setattr("depthscope.store.screen._BLOCK_BYTES", 300)
    np.testing.assert_array_equal(open_run(run_path).read("write_rms", columns=30), whole)


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(0, 200), columns=st.integers(1, 250))
def test_there_are_never_more_bins_than_columns(rows: int, columns: int) -> None:
    size = bin_rows(rows, columns)
    assert len(reduce_rows(np.zeros((rows, 2), "f4"), size)) <= columns
    assert rows <= size * columns


def test_means_do_not_lose_digits_over_many_rows() -> None:
    values = np.full((100_000, 3), 0.1, "f4")
    np.testing.assert_allclose(reduce_rows(values, 100_000)[0, 0], np.float32(0.1), rtol=1e-7)


# --- derived ----------------------------------------------------------------------------------------------


@pytest.fixture
def derived_path(tmp_path: Path) -> Path:
    """Writes 3, 4, 0, 12 and gradients 1, 2, 3, 4; layer 3's state is not seen."""
    layout = outline(states=(True, True, False, True))
    arrays = [
        ArraySpec(name=name, dims=("layer",), shape=(LAYERS,)) for name in ("write_rms", "grad_write_rms")
    ]
    streams = [StreamSpec(name="fast", arrays=arrays, chunk_rows=16)]
    with RunWriter.create(
        tmp_path / "run", name="r", config={}, layout=layout, streams=streams, fsync=False
    ) as writer:
        for step in range(2):
            writer.append(
                "fast", step, {"write_rms": np.array([3.0, 4, 0, 12]), "grad_write_rms": np.arange(1.0, 5)}
            )
    return tmp_path / "run"


def test_derived_quantities_follow_their_definitions(derived_path: Path) -> None:
    run = open_run(derived_path)
    assert run["grad_relative"].values[1].tolist() == [3.0, 8.0, 0.0, 48.0]
    np.testing.assert_allclose(run["write_share"].values[0], np.array([9, 16, 0, 144]) / 169, rtol=1e-6)
    np.testing.assert_array_equal(run["grad_state_rms"].values[0], [1.0, 2.0, np.nan, 4.0])
    assert run["grad_relative"].attrs["formula"] == "write_rms grad_write_rms"
    assert run["write_share"].dtype == np.float32
    assert run["write_share"]["layer_name"].values.tolist() == list(run.layout.layer_names)
    assert "grad_relative" in run
    assert run.read("grad_relative", layers=[4]).values.tolist() == [[48.0], [48.0]]


def test_bins_of_a_derived_quantity_are_of_its_values_not_of_its_inputs(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    writer = make_writer()
    for step, (write, grad) in enumerate([(1.0, 4.0), (3.0, 2.0)]):
        writer.append(
            "fast", step, {"write_rms": np.full(LAYERS, write), "grad_write_rms": np.full(LAYERS, grad)}
        )
    got = open_run(tmp_path / "run").read("grad_relative", columns=1)
    assert got.values[0, :, 0].tolist() == [5.0, 4.0, 6.0, 0.0]  # (4 + 6) / 2, not 2 * 3


def test_a_share_of_writes_with_one_missing_is_unknown() -> None:
    share = derive("write_share", {"write_rms": np.array([[3.0, np.nan]], "f4")}, outline(layers=2))
    assert np.isnan(share).all()


def test_nothing_is_derived_from_what_is_not_recorded(tmp_path: Path) -> None:
    streams = [StreamSpec(name="fast", arrays=[ArraySpec(name="loss")], chunk_rows=4)]
    with RunWriter.create(
        tmp_path / "run", name="r", config={}, layout=outline(), streams=streams, fsync=False
    ):
        run = open_run(tmp_path / "run")
        assert run.quantities == ("loss",)
        assert "grad_relative" not in run
        with pytest.raises(KeyError, match="has no 'grad_relative'"):
            run["grad_relative"]
