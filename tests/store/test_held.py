"""Quantities that are entries of another one: the newest write's share of the next read, of the contributions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthscope.store import ArraySpec, Run, RunWriter, StreamSpec, open_run
from tests.store.runs import LAYERS, outline

MAP = ArraySpec(
    name="mixing_contribution", dims=("target", "origin"), shape=(LAYERS + 1, LAYERS + 2), dtype="f4"
)
OWN = ArraySpec(name="fresh_share", dims=("layer",), shape=(LAYERS,))
LOSS = ArraySpec(name="loss")


def contributions(rows: int) -> npt.NDArray[np.float32]:
    """Signed numbers with holes, another at every place."""
    values = np.random.default_rng(1).normal(size=(rows, *MAP.shape)).astype("f4")
    values[::3, 2, 2] = np.nan
    return values


def by_hand(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sublayer l writes origin l, and target l + 1 reads next: [row, target - 1, origin] one by one."""
    return np.array([[row[layer, layer] for layer in range(1, LAYERS + 1)] for row in values])


def recorded(
    path: Path, values: npt.NDArray[np.float32], *, own: bool = False, streams: tuple[str, ...] = ("slow",)
) -> Run:
    specs = [StreamSpec(name="fast", arrays=[LOSS, OWN] if own else [LOSS], every=1, chunk_rows=16)]
    specs += [StreamSpec(name=name, arrays=[MAP], every=2, chunk_rows=16) for name in streams]
    with RunWriter.create(
        path, name="run", config={}, layout=outline(), streams=specs, fsync=False
    ) as writer:
        for row, value in enumerate(values):
            held = {"fresh_share": np.full(LAYERS, row)} if own else {}
            writer.append("fast", row, {"loss": 1.0, **held})
            for name in streams:
                writer.append(name, 2 * row, {"mixing_contribution": value * (1 if name == "slow" else 2)})
    return open_run(path)


def test_it_is_read_where_the_run_does_not_record_it(tmp_path: Path) -> None:
    values = contributions(40)
    run = recorded(tmp_path / "run", values)
    assert "fresh_share" in run
    assert "fresh_share" in run.quantities
    assert run.stream_of("fresh_share") == "slow"
    share = run["fresh_share"]
    assert share.dims == ("step", "layer")
    assert share["step"].values.tolist() == list(range(0, 80, 2))
    assert share["layer"].values.tolist() == list(range(1, LAYERS + 1))
    assert "mixing" in share.attrs["comment"]
    np.testing.assert_array_equal(share.values, by_hand(values))
    some = run.read("fresh_share", 10, 20, layers=[3, 1])
    np.testing.assert_array_equal(some.values, by_hand(values)[5:10][:, [2, 0]])


def test_its_own_record_comes_first_and_the_held_one_has_its_streams_name(tmp_path: Path) -> None:
    values = contributions(5)
    run = recorded(tmp_path / "run", values, own=True, streams=("slow", "probe"))
    assert run.stream_of("fresh_share") == "fast"
    np.testing.assert_array_equal(run["fresh_share"].values[:, 0], np.arange(5))
    np.testing.assert_array_equal(run["slow/fresh_share"].values, by_hand(values))
    np.testing.assert_array_equal(run["probe/fresh_share"].values, by_hand(2 * values))
    assert [name for name in run.quantities if name.endswith("fresh_share")] == ["fresh_share"]


def test_without_contributions_it_is_unknown(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", contributions(2), streams=())
    assert "fresh_share" not in run
    for call in (run.read, run.stream_of):
        with pytest.raises(KeyError, match="no 'fresh_share'"):
            call("fresh_share")


@settings(max_examples=12, deadline=None)
@given(rows=st.integers(1, 700), columns=st.integers(1, 60), span=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_bins_are_those_of_its_entries(rows: int, columns: int, span: tuple[float, float]) -> None:
    """Of long records they come from the pyramid of the contributions; every bin against numpy on its rows."""
    values = contributions(rows)
    with tempfile.TemporaryDirectory() as folder:
        run = recorded(Path(folder) / "run", values)
        start, stop = sorted(int(part * 2 * rows) for part in span)
        got = run.read("fresh_share", start, stop, layers=[1, 2, 4], columns=columns)
    rows_of = by_hand(values)[:, [0, 1, 3]].astype("f8")
    for place, (first, last) in enumerate(zip(got["step_start"].values, got["step_end"].values, strict=True)):
        inside = rows_of[first // 2 : last // 2 + 1]
        finite = np.isfinite(inside)
        count = finite.sum(0)
        mean = np.where(count > 0, np.where(finite, inside, 0).sum(0) / np.maximum(count, 1), np.nan)
        np.testing.assert_allclose(got.values[place, 0], mean, rtol=1e-5, atol=1e-6)
        for stat, extreme in ((1, np.fmin), (2, np.fmax)):
            np.testing.assert_allclose(got.values[place, stat], extreme.reduce(inside, axis=0), rtol=1e-6)
        np.testing.assert_array_equal(got.values[place, 3], (~finite).sum(0))
