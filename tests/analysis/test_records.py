"""Records of long runs: the means of bins in place of more rows than memory should hold."""

from __future__ import annotations

import numpy as np
import pytest

from depthscope.analysis.records import Records
from depthscope.store import ArraySpec, Run, RunWriter, StreamSpec, open_run
from tests.store.runs import LAYERS, outline


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """6400 rows of write_rms = step over 4 layers."""
    path = tmp_path_factory.mktemp("records") / "run"
    arrays = [ArraySpec(name="write_rms", dims=("layer",), shape=(LAYERS,))]
    streams = [StreamSpec(name="fast", arrays=arrays)]
    with RunWriter.create(
        path, name="r", config={}, layout=outline(), streams=streams, fsync=False
    ) as writer:
        for step in range(6400):
            writer.append("fast", step, {"write_rms": np.full(LAYERS, step)})
    return open_run(path)


def test_few_records_are_the_rows(run: Run) -> None:
    tail = Records(run).tail("write_rms")
    assert tail is not None
    assert tail.steps.tolist() == list(range(5760, 6400))
    assert tail.values[:, 0].tolist() == tail.steps.tolist()


def test_very_many_records_are_the_means_of_bins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("depthscope.analysis.records._MOST_NUMBERS", 100)
    whole = Records(run).whole("write_rms")
    assert whole is not None
    assert whole.steps.tolist() == [*range(127, 6400, 128)]  # 50 bins of 128 rows, from at most 64
    assert whole.values[:, 0].tolist() == (whole.steps - 63.5).tolist()
    assert whole.values.mean() == 3199.5
    tail = Records(run, step=6299).tail("write_rms")
    assert tail is not None
    assert tail.newest_step == 6299
    np.testing.assert_allclose(np.average(tail.values[:, 0]), np.mean(np.arange(5670, 6300)), rtol=2e-3)


def test_entries_of_very_many_records_are_the_means_of_bins(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = Records(run).entries("write_rms", [(1,), (3,)])
    monkeypatch.setattr("depthscope.analysis.records._MOST_NUMBERS", 100)
    monkeypatch.setattr("depthscope.analysis.records._MOST_PICKED_BYTES", 100)
    binned = Records(run).entries("write_rms", [(1,), (3,)])
    assert exact is not None
    assert binned is not None
    assert exact.values.shape == (6400, 2)
    assert binned.values.shape == (50, 2)
    assert binned.values.mean() == exact.values.mean() == 3199.5
