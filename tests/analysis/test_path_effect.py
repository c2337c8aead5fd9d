"""Effects beside weights: joined by target and source, at the record that the checkpoint belongs to."""

from __future__ import annotations

import os

import numpy as np
import pytest

from depthscope.analysis import (
    chosen_sweep,
    disagreements,
    effect_map,
    effects_over_steps,
    path_effects,
    rank_correlation,
    widest_paths,
)
from depthscope.quantities import DepthLayout
from depthscope.store import CellStore, Run, Sweep, list_sweeps, sweep_path
from tests.analysis.sweeps import write_sweep
from tests.analysis.synthetic_runs import WriteRun, block_layout, uniform_attention

LAYOUT = block_layout(8, 4)


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
    write_sweep(run.path, "a", 19, changes(0.5), layout=LAYOUT)
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
    write_sweep(run.path, "a", 20, changes(0.5), layout=LAYOUT)
    effects = path_effects(run, only(run))
    first, second, *rest = widest_paths(effects, 5)
    assert (first.target, first.source, round(first.weight, 2)) == (9, 0, 0.7)
    assert second.weight == pytest.approx(0.5, abs=1e-3)
    assert len(rest) == 3
    assert all(each.distance >= 2 for each in (first, second, *rest))
    assert min(each.distance for each in widest_paths(effects, 99, least_distance=1)) == 1


def test_effects_of_several_checkpoints_become_an_array_over_steps(run: Run) -> None:
    write_sweep(run.path, "b", 20, changes(2.0), layout=LAYOUT)
    write_sweep(run.path, "a", 10, changes(1.0), layout=LAYOUT)
    write_sweep(run.path, "c", 30, changes(5.0), mode="mean", layout=LAYOUT)
    write_sweep(run.path, "d", None, changes(7.0), layout=LAYOUT)
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


def test_the_sweep_of_a_step_is_the_nearest_to_it_and_of_two_the_later(run: Run) -> None:
    for name, step, mode in (
        ("b", 20, "zero"),
        ("a", 10, "mean"),
        ("z", 10, "renormalise"),
        ("k", None, "zero"),
    ):
        write_sweep(run.path, name, step, changes(1.0), layout=LAYOUT, mode=mode)

    def chosen(step: int | None, mode: str | None = None) -> str:
        found = chosen_sweep(run.sweeps(), step=step, mode=mode)
        return "" if found is None else found.name

    assert [chosen(None), chosen(25), chosen(20), chosen(19)] == ["b", "b", "b", "b"]
    assert [chosen(15), chosen(14), chosen(5)] == ["b", "z", "z"], "15 is as near to 10 as to 20"
    assert chosen(19, "mean") == "a"
    assert chosen(19, "zero") == "b"
    assert chosen(19, "resample") == ""


def test_of_sweeps_of_one_mode_and_step_the_most_batches_count_then_the_newest_file(run: Run) -> None:
    one = np.repeat(changes(1.0), 2, axis=-1)
    for place, (name, change) in enumerate(
        (("c", one), ("b", one), ("a", changes(1.0)), ("d", changes(1.0)))
    ):
        store = write_sweep(run.path, name, 12, change, layout=LAYOUT)
        for array in ("loss_change", "exists"):
            os.utime(store.path / array, (1000 - place, 1000 - place))
    names = [
        sweep.name for sweep in (chosen_sweep(run.sweeps(), step=11), chosen_sweep(run.sweeps())) if sweep
    ]
    assert names == ["c", "c"], "4 batches as b has, written after it"
    assert [sweep.batches for sweep in run.sweeps()] == [2, 4, 4, 2]
    for file in (run.path / "causal" / "c.zarr" / "loss_change").glob("c.*.1"):
        file.unlink()
    shown = chosen_sweep(run.sweeps(), step=11)
    assert shown is not None
    assert shown.name == "b", "c has 3 batches so far"
    assert effects_over_steps(run.sweeps())["effect"].values[0, 8, 0] == pytest.approx(2.0)


def test_only_a_pair_that_is_wide_and_free_or_narrow_and_costly_disagrees() -> None:
    """Of 20 pairs the widest two and the costliest two count; the cut of the widest costs less than its interval."""
    width = np.arange(20.0)
    effect, interval = np.arange(20.0) / 10 + 1, np.full(20, 0.5)
    effect[[3, 12]] = 9.0, 8.0
    effect[[14, 19]] = 0.4
    free, costly = disagreements(width, effect, interval)
    assert np.flatnonzero(free).tolist() == [19], "14 shows no cost either, and is not among the widest two"
    assert np.flatnonzero(costly).tolist() == [3], "the other costly one is wider than half of all"
    interval[3] = 9.5
    assert not disagreements(width, effect, interval)[1].any(), "its interval holds 0"
    effect[19], interval[19] = 20.0, 30.0
    assert not disagreements(width, effect, interval)[0].any(), "the largest effect, measured badly"
    effect[19], interval[19] = 0.4, np.nan
    assert not disagreements(width, effect, interval)[0].any(), "one batch has no interval"
    assert not disagreements(width[:9], effect[:9], interval[:9])[1].any(), "a tenth of nine is none"


def test_a_map_holds_what_each_target_can_read_and_at_which_distance(run: Run) -> None:
    write_sweep(run.path, "a", 19, changes(0.5), layout=LAYOUT)
    data = effect_map(run, only(run))
    assert data["n_sources"].values.tolist() == [1, 2, 2, 2, 2, 3, 3, 3, 3]
    assert data["distance"].values[8].tolist() == [3, 2, 1]
    assert data["distance"].values[0].tolist() == [1, 0, 0]
    assert data.attrs["record_step"] == 10
