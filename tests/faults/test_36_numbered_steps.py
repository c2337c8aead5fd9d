"""Fault 36: steps that the loop numbers itself, with gaps: every row has the number that it was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import batches, build, loss_of, optimizer_of


def numbered(numbers: list[int], path: Path, **options: int) -> tuple[list[int], list[float], list[float]]:
    """Train and return the recorded steps and losses, and the losses that the loop saw."""
    model = build("prenorm")
    draw, optimizer, seen = batches(), optimizer_of(model), []
    with Recorder(model, path, optimizer=optimizer, **options) as recorder:  # type: ignore[arg-type]
        for number in numbers:
            loss = loss_of(model, *draw())
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach(), step=number)
            optimizer.zero_grad()
            seen.append(loss.item())
    found = open_run(path)["loss"]
    return found.step.values.tolist(), found.values.tolist(), seen


def test_rows_have_the_numbers_that_were_given(tmp_path: Path) -> None:
    steps, recorded, seen = numbered([0, 10, 20, 50, 51], tmp_path / "run")
    assert steps == [0, 10, 20, 50, 51]
    np.testing.assert_allclose(recorded, seen, rtol=1e-6)


def test_numbers_at_a_distance_are_due_when_they_are_multiples(tmp_path: Path) -> None:
    """Counted in micro-batches, say: 5 a step, with a row every 20."""
    steps, recorded, seen = numbered(list(range(0, 100, 5)), tmp_path / "run", every=20)
    assert steps == [0, 20, 40, 60, 80]
    np.testing.assert_allclose(recorded, seen[::4], rtol=1e-6)


def test_after_a_gap_every_row_still_has_its_own_number_and_values(tmp_path: Path) -> None:
    """What a step records is decided before it, as if the last distance went on: a gap may cost a row."""
    numbers = [0, 10, 20, 30, 40, 137, 147, 160, 170, 180]
    steps, recorded, seen = numbered(numbers, tmp_path / "run", every=10)
    assert set(steps) >= {0, 20, 30, 40, 180}
    np.testing.assert_allclose(recorded, [seen[numbers.index(step)] for step in steps], rtol=1e-6)


def test_tokens_are_counted_over_the_gaps(tmp_path: Path) -> None:
    model = build("prenorm")
    draw = batches()
    with Recorder(model, tmp_path / "run", start_step=5) as recorder:
        for number in (5, 100, 101):
            loss_of(model, *draw()).backward()
            recorder.step(step=number, tokens=7)
            model.zero_grad()
        recorder.evaluation(validation=1.0)
    run = open_run(tmp_path / "run")
    assert run["tokens"].values.tolist() == [0, 7, 14]
    assert run["validation"].step.values.tolist() == [102]


@pytest.mark.parametrize("back", [3, 7])
def test_a_number_that_goes_back_is_refused_by_name(back: int, tmp_path: Path) -> None:
    model: nn.Module = build("prenorm")
    draw = batches()
    with Recorder(model, tmp_path / "run") as recorder:
        for number in (3, 7):
            loss_of(model, *draw()).backward()
            recorder.step(step=number)
            model.zero_grad()
        loss_of(model, *draw()).backward()
        with pytest.raises(ValueError, match=f"step={back}: step 7 came before it; steps only grow"):
            recorder.step(step=back)
        model.zero_grad()
        loss_of(model, *draw()).backward()
        recorder.step(step=11)
    assert open_run(tmp_path / "run").steps("fast").tolist() == [3, 7, 11]
