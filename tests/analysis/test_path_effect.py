"""Effects beside weights: joined by target and source, at the record that the checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.analysis import effects_over_steps, path_effects, rank_correlation, widest_paths
from depthscope.quantities import DepthLayout
from depthscope.store import CellArray, CellStore, Coordinate, Run, Sweep, list_sweeps, sweep_path
from tests.analysis.synthetic_runs import WriteRun, block_layout, uniform_attention

LAYOUT = block_layout(8, 4)


def write_sweep(
    run: Path,
    name: str,
    step: int | None,
    change: np.ndarray,
    *,
    mode: str = "zero",
    layout: DepthLayout = LAYOUT,
) -> None:
    """Write loss changes [target, source, batch], NaN where there is no pair."""
    rows, columns, batches = change.shape
    store = CellStore.create(
        sweep_path(run, name),
        (
            CellArray(
                name="loss_change",
                dims=("target", "source", "batch"),
                shape=change.shape,
                chunk=(1, columns, 1),
            ),
            CellArray(
                name="exists",
                dims=("target", "source"),
                shape=(rows, columns),
                chunk=(rows, columns),
                dtype="i8",
            ),
        ),
        coordinates=(
            Coordinate(name="target", dim="target", values=range(1, rows + 1)),
            Coordinate(name="target_name", dim="target", values=layout.target_names),
            Coordinate(name="source_name", dim="source", values=layout.source_names),
        ),
        attributes={"kind": "sources", "mode": mode, "step": step},
    )
    store.put("exists", (0, 0), np.isfinite(change[..., 0]).astype(np.int64))
    for row, _, batch in {(row, 0, batch) for row in range(rows) for batch in range(batches)}:
        store.put("loss_change", (row, 0, batch), change[row : row + 1, :, batch : batch + 1])


def changes(scale: float) -> np.ndarray:
    """Batches at scale and three times scale, times the source's column + 1."""
    exists = np.isfinite(uniform_attention(LAYOUT))
    one = np.where(exists, scale * np.arange(1, 4), np.nan)
    return np.stack([one, 3 * one], axis=-1)


@pytest.fixture
def run(write_run: WriteRun) -> Run:
    """Return a run whose weights are uniform, but the output's of the embedding 0.5 + step / 100."""

    weights = np.stack([uniform_attention(LAYOUT)] * 3)
    weights[:, 8, 0] = 0.5, 0.6, 0.7
    values = {
        "depth_attention": weights,
        "depth_contribution": 10 * np.stack([uniform_attention(LAYOUT)] * 3),
    }
    return write_run("run", LAYOUT, values, steps=(0, 10, 20))


def only(run: Run) -> Sweep:
    (sweep,) = list_sweeps(run.path)
    return sweep


def test_an_effect_stands_beside_the_weight_of_its_step(run: Run) -> None:
    write_sweep(run.path, "a", 19, changes(0.5))
    found = {(each.target, each.source): each for each in path_effects(run, only(run))}
    assert len(found) == np.isfinite(uniform_attention(LAYOUT)).sum()
    last = found[9, 0]
    assert (last.target_name, last.source_name, last.distance, last.n_sources, last.measured) == (
        "output",
        "embedding",
        3,
        3,
        2,
    )
    assert last.weight == pytest.approx(0.6, abs=1e-3)  # of step 10, the last one before 19
    assert last.contribution == pytest.approx(10 / 3, rel=1e-3)
    assert last.effect == 1.0
    assert last.interval == pytest.approx(12.7062 * 0.5 * 2**0.5 / 2**0.5)  # t of one degree of freedom
    assert found[9, 2].distance == 1


def test_without_a_record_or_with_other_targets_there_is_no_weight(run: Run) -> None:
    other = block_layout(8, 4)
    renamed = DepthLayout(**{**vars(other), "layer_names": tuple(f"other.{index}" for index in range(8))})
    write_sweep(run.path, "a", 19, changes(0.5), layout=renamed)
    assert all(np.isnan(each.weight) for each in path_effects(run, only(run)))


def test_the_widest_paths_are_far_and_sorted_by_weight(run: Run) -> None:
    write_sweep(run.path, "a", 20, changes(0.5))
    effects = path_effects(run, only(run))
    first, second, *rest = widest_paths(effects, 5)
    assert (first.target, first.source, round(first.weight, 2)) == (9, 0, 0.7)
    assert second.weight == pytest.approx(0.5, abs=1e-3)
    assert len(rest) == 3
    assert all(each.distance >= 2 for each in (first, second, *rest))
    assert min(each.distance for each in widest_paths(effects, 99, least_distance=1)) == 1


def test_effects_of_several_checkpoints_become_an_array_over_steps(run: Run) -> None:
    write_sweep(run.path, "b", 20, changes(2.0))
    write_sweep(run.path, "a", 10, changes(1.0))
    write_sweep(run.path, "c", 30, changes(5.0), mode="mean")
    write_sweep(run.path, "d", None, changes(7.0))
    over = effects_over_steps(list_sweeps(run.path), mode="zero")
    assert over["step"].values.tolist() == [10, 20]
    np.testing.assert_allclose(over["effect"].sel(step=20).values[8], [4, 8, 12])
    assert over["target_name"].values[8] == "output"
    assert effects_over_steps(list_sweeps(run.path))["step"].values.tolist() == [30]  # the newest's mode
    assert not effects_over_steps([])


def test_a_sweep_of_something_else_is_refused(run: Run) -> None:
    CellStore.create(sweep_path(run.path, "a"), (), attributes={"kind": "lens"})
    with pytest.raises(ValueError, match="'lens'; expected one of kind 'sources'"):
        path_effects(run, only(run))


def test_rank_correlation_is_spearmans() -> None:
    one = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert rank_correlation(one, one**3) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    # 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 1, 1, 0, 1, 1.
    assert rank_correlation(one, np.array([20.0, 10.0, 30.0, 50.0, 40.0])) == pytest.approx(1 - 6 * 4 / 120)
    assert rank_correlation(np.append(one, np.nan), np.append(one, 99.0)) == pytest.approx(1)
    assert np.isnan(rank_correlation(one[:2], one[:2]))
    assert np.isnan(rank_correlation(one, np.ones(5)))


def test_ties_have_their_mean_rank() -> None:
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: correlation 4.5 / sqrt(4.5 * 5).
    found = rank_correlation(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert found == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
