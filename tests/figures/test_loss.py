"""The loss: validation where runs evaluate, training loss otherwise, opened on what comes after the start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import figure, figure_data
from depthscope.store import open_run
from tests.figures.runs import STEPS, record, start


def test_the_validation_loss_is_shown_where_a_run_evaluates(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    data = figure_data("loss", run)
    assert data.attributes["title"] == "Validation loss"
    np.testing.assert_array_equal(data.arrays[run.id].values, run.read("evaluation/validation").values)
    assert data.arrays[run.id]["step"].values.tolist() == list(STEPS)


def test_without_evaluations_the_training_loss_stands_in(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a", validation=False))
    data = figure_data("loss", run)
    assert data.attributes["title"] == "Training loss"
    np.testing.assert_array_equal(data.arrays[run.id].values, run.read("loss").values)


def test_a_run_that_has_not_evaluated_yet_is_named(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", validation=False))]
    data = figure_data("loss", runs)
    assert list(data.arrays) == [runs[0].id]
    assert data.absent == {runs[1].id: "no validation loss yet"}


def test_the_chart_opens_on_the_last_nine_tenths_of_the_records(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    losses = run.read("evaluation/validation").values
    low, high = figure("loss", run).layout.yaxis.range
    assert low < losses.min()
    assert losses[3] < high < losses[2], "31 records: the first 3 are left out"


def test_a_run_without_rows_has_no_loss(tmp_path: Path) -> None:
    writer = start(tmp_path / "empty")
    try:
        with pytest.raises(ValueError, match="empty: no loss was given to the recorder"):
            figure("loss", open_run(tmp_path / "empty"))
    finally:
        writer.close()
