"""`Recorder(per_rank=True)`: every rank writes what it alone saw, beside the run of all ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.recording import Recorder
from depthscope.store import Run, find_runs
from tests.ranks.expected import FORWARD, TOKENS, alone, compare, row_of
from tests.ranks.models import batch_of, together, trained
from tests.recording.loops import batches, build, optimizer_of, train


def runs_of(folder: Path, how: str) -> tuple[Run, list[Run]]:
    merged, *own = find_runs(folder / f"apart-prenorm-{how}")
    assert [run.path.name for run in (merged, *own)] == ["run", "run.rank00000", "run.rank00001"]
    return merged, own


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_a_rank_writes_what_it_alone_saw(how: str, two_ranks: Path) -> None:
    _, own = runs_of(two_ranks, how)
    for rank, run in enumerate(own):
        assert run.status == "finished"
        assert run.steps("fast").tolist() == [0, 1, 2]
        for place in range(3):
            expected = alone(10 * place + rank)
            row = {name: run[name].values[place] for name in (*FORWARD, "loss_tokens")}
            compare(row, {name: expected[name] for name in FORWARD})
            assert row["loss_tokens"] == TOKENS


def test_the_sums_of_the_ranks_are_those_of_the_merged_run(two_ranks: Path) -> None:
    """As many tokens on each of two ranks: squares are averaged, logarithms too, the largest entry is the larger."""
    merged, own = runs_of(two_ranks, "ddp")

    def both(name: str) -> list[np.ndarray]:
        return [run[name].values for run in own]

    for name in ("write_rms", "state_rms", "read_rms"):
        np.testing.assert_allclose(
            merged[name], np.sqrt((both(name)[0] ** 2 + both(name)[1] ** 2) / 2), rtol=1e-5
        )
    for name in ("write_logrms", "write_ratio", "loss"):
        np.testing.assert_allclose(merged[name], (both(name)[0] + both(name)[1]) / 2, rtol=1e-5)
    np.testing.assert_array_equal(merged["abs_max"], np.maximum(*both("abs_max")))
    # The mean loss of both: half of each rank's gradient, over twice the tokens.
    squares = [(each / TOKENS) ** 2 for each in both("grad_write_rms")]
    by_hand = 2 * TOKENS * np.sqrt((squares[0] / 4 + squares[1] / 4) / 2)
    np.testing.assert_allclose(merged["grad_write_rms"], by_hand, rtol=1e-5)
    for run in own:
        np.testing.assert_array_equal(run["param_grad_norm"], merged["param_grad_norm"])


def test_a_rank_of_a_sharded_model_has_the_norms_of_its_shard(two_ranks: Path) -> None:
    merged, own = runs_of(two_ranks, "fsdp")
    parts = [run["param_grad_norm"].values[0] for run in own]
    whole = row_of(trained("prenorm"), *together([batch_of(0), batch_of(1)]))["param_grad_norm"]
    np.testing.assert_allclose(np.hypot(*parts), whole, rtol=1e-5)
    np.testing.assert_allclose(merged["param_grad_norm"][0], whole, rtol=1e-5)
    assert (parts[0] < whole).all()


@pytest.mark.parametrize(
    ("how", "held"), [("ddp", "after their reduction"), ("fsdp", "the shard that this rank holds")]
)
def test_a_rank_run_says_whose_numbers_it_holds(how: str, held: str, two_ranks: Path) -> None:
    merged, own = runs_of(two_ranks, how)
    for rank, run in enumerate(own):
        assert run.name == f"run (rank {rank})"
        assert run.config["depthscope_rank"] == {"rank": rank, "of_ranks": 2}
        attributes = run["write_rms"].attrs
        assert (attributes["rank"], attributes["of_ranks"]) == (rank, 2)
        assert attributes["held"].startswith("this rank's own tokens")
        assert "ranks" not in attributes
        assert held in run["param_grad_norm"].attrs["held"]
        assert "rank_factor" not in run["grad_write_rms"].attrs
    assert merged["write_rms"].attrs["ranks"] == 2
    assert "depthscope_rank" not in merged.config


def test_in_one_process_the_run_is_that_of_its_rank(tmp_path: Path) -> None:
    model = build("prenorm")
    optimizer = optimizer_of(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, per_rank=True) as recorder:
        train(model, 1, batches(), optimizer, lambda loss: recorder.step(loss=loss))
    assert [run.path.name for run in find_runs(tmp_path)] == ["run"]
