"""Rounded mantissas and codecs: what is stored, and that log, arrays and pyramid hold the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from depthscope.store import ArraySpec, Codec, StreamSpec, open_run
from depthscope.store.rounding import round_mantissa
from tests.store.runs import LAYERS, MakeWriter

floats = hnp.arrays(np.float32, st.integers(0, 30), elements=st.floats(width=32))


def rounded(values: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    out = values.copy()
    round_mantissa(out.view("<u4"), bits)
    return out


@given(floats, st.integers(1, 22))
def test_rounding_is_to_the_nearest_and_keeps_what_is_no_number(
    values: npt.NDArray[np.float32], bits: int
) -> None:
    got = rounded(values, bits)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(values))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(values))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))
    np.testing.assert_array_equal(got.view("u4") & ((1 << (23 - bits)) - 1) * np.isfinite(values), 0)
    np.testing.assert_array_equal(rounded(got, bits), got)
    ordinary = np.isfinite(values) & (np.abs(values) >= 2.0**-126) & (np.abs(values) < 1.5 * 2.0**127)
    off = np.abs(got[ordinary].astype("f8") - values[ordinary])
    assert (off <= np.abs(values[ordinary].astype("f8")) * 2.0 ** -(bits + 1)).all()


def test_ties_go_to_even_and_the_largest_number_stays_finite() -> None:
    ulp = 2.0**-10
    values = np.array([1 + ulp / 2, 1 + 3 * ulp / 2, 1 + ulp * 0.51, np.finfo("f4").max, 0, -0.0], "f4")
    got = rounded(values, 10)
    assert got[:3].tolist() == [1.0, 1 + 2 * ulp, 1 + ulp]
    assert np.isfinite(got[3])
    assert got[3] > 3.4e38
    assert np.signbit(got[4:]).tolist() == [False, True]


def streams(bits: int | None, **changes: Any) -> list[StreamSpec]:
    arrays = [
        ArraySpec(name="write_rms", dims=("layer",), shape=(LAYERS,), mantissa_bits=bits),
        ArraySpec(name="exact", dims=("layer",), shape=(LAYERS,)),
        ArraySpec(name="grad_write_rms", dims=("layer",), shape=(LAYERS,), mantissa_bits=bits),
        ArraySpec(name="tokens", dtype="f8"),
    ]
    return [StreamSpec(name="fast", arrays=arrays, chunk_rows=64, **changes)]


def test_log_arrays_and_pyramid_hold_the_rounded_values(make_writer: MakeWriter, tmp_path: Path) -> None:
    values = np.random.default_rng(0).lognormal(0, 1, (150, LAYERS)).astype("f4")
    writer = make_writer(streams=streams(10))
    for step, row in enumerate(values):
        writer.append(
            "fast", step, {"write_rms": row, "exact": row, "grad_write_rms": row * 2, "tokens": 2**30 + step}
        )
    run = open_run(tmp_path / "run")
    expected = rounded(values, 10)
    assert (expected != values).any()
    for _ in ("in the log", "in the arrays"):
        np.testing.assert_array_equal(run["write_rms"].values, expected)
        np.testing.assert_array_equal(run["grad_write_rms"].values, rounded(values * 2, 10))
        np.testing.assert_array_equal(run["exact"].values, values)
        assert run["tokens"].values[-1] == 2**30 + 149
        bins = run.read("write_rms", columns=3)
        np.testing.assert_array_equal(bins.sel(stat="max").values[0], expected[:64].max(axis=0))
        writer.close()
    assert run["write_rms"].attrs["mantissa_bits"] == 10
    assert "mantissa_bits" not in run["exact"].attrs


def test_rounded_noise_takes_little_more_than_half_the_space(make_writer: MakeWriter, tmp_path: Path) -> None:
    sizes = []
    for bits in (None, 10):
        path = tmp_path / f"run{bits}"
        arrays = [ArraySpec(name="wide", dims=("x",), shape=(256,), mantissa_bits=bits)]
        writer = make_writer(path, streams=[StreamSpec(name="fast", arrays=arrays, chunk_rows=256)])
        for step, row in enumerate(np.random.default_rng(0).lognormal(0, 1, (256, 256))):
            writer.append("fast", step, {"wide": row})
        writer.close()
        sizes.append((path / "rank00000" / "data.zarr" / "fast" / "wide" / "c.0.0").stat().st_size)
    assert sizes[1] < 0.6 * sizes[0]


@pytest.mark.parametrize("codec", [Codec(name="lz4", level=5), Codec(name="zstd", level=9)])
def test_any_zarr_reader_reads_any_codec(make_writer: MakeWriter, tmp_path: Path, codec: Codec) -> None:
    import zarr

    writer = make_writer(streams=streams(None, codec=codec))
    for step in range(100):
        writer.append("fast", step, {"write_rms": np.full(LAYERS, step)})
    writer.close()
    array = zarr.open_array(tmp_path / "run" / "rank00000" / "data.zarr" / "fast" / "write_rms", mode="r")
    np.testing.assert_array_equal(np.asarray(array[:, 0]), np.arange(100))
    assert codec.name in repr(array.compressors)
    np.testing.assert_array_equal(open_run(tmp_path / "run")["write_rms"].values[:, 0], np.arange(100))


def test_what_cannot_be_rounded_or_packed_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 to 22, of f4"):
        ArraySpec(name="tokens", dtype="f8", mantissa_bits=10)
    with pytest.raises(ValueError, match="mantissa_bits is 23"):
        ArraySpec(name="x", mantissa_bits=23)
    with pytest.raises(ValueError, match="expected one of zstd, lz4"):
        Codec(name="gzip")
    with pytest.raises(ValueError, match="level is 0"):
        Codec(level=0)
