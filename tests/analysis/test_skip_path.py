"""A skip path needs distance, four sources, weight and steadiness: exactly the criteria, no more, no less."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthscope.analysis.skip_path import (
    SkipPath,
    candidates,
    crossed_and_stayed,
    describe_path,
    find_paths,
    is_skip_path,
    path_words,
    threshold,
)
from depthscope.quantities import DepthLayout

LAYERS = 6


def full_layout() -> DepthLayout:
    """Six sublayers of Full AttnRes: target t (from 0) reads the embedding and sublayers 1..t."""
    return DepthLayout(
        design="full-attnres",
        layer_names=tuple(f"layers.{index}" for index in range(LAYERS)),
        layer_kinds=("attention", "mlp") * (LAYERS // 2),
        transformer_block=(1, 1, 2, 2, 3, 3),
        residual_block=(0,) * LAYERS,
        additive=(False,) * LAYERS,
        reads=(True,) * LAYERS,
        states=(True,) * LAYERS,
        fresh=(True,) * LAYERS,
        source_names=("embedding", *(f"sublayer {index}" for index in range(1, LAYERS + 1))),
        sources=tuple(tuple(range(target + 1)) for target in range(LAYERS + 1)),
        partial=(-1,) * (LAYERS + 1),
    )


def uniform(records: int) -> np.ndarray:
    """Uniform weights [records, target, source], unreachable entries NaN."""
    weight = np.full((records, LAYERS + 1, LAYERS + 1), np.nan)
    for target in range(LAYERS + 1):
        weight[:, target, : target + 1] = 1 / (target + 1)
    return weight


def described(weight: np.ndarray, contribution: np.ndarray | None, steps: np.ndarray) -> list[SkipPath]:
    """Every path in `weight` [records, target, source], found on the last tenth, described on all records."""
    layout, tail = full_layout(), -(-len(steps) // 10)
    return [
        describe_path(
            pair,
            steps,
            weight[:, pair[0], pair[1]],
            None if contribution is None else contribution[:, pair[0], pair[1]],
            layout,
        )
        for pair in find_paths(weight[-tail:], layout)
    ]


def test_the_threshold_is_twice_uniform_and_never_below_a_tenth() -> None:
    assert threshold(4) == 0.5
    assert threshold(10) == 0.2
    assert threshold(20) == 0.1
    assert threshold(100) == 0.1


def test_candidates_have_four_sources_and_are_not_the_newest() -> None:
    pairs = candidates(full_layout().sources)
    assert (3, 0, 4, 4) in pairs
    assert (6, 5, 2, 7) in pairs
    assert all(n_sources >= 4 and distance >= 2 for _, _, distance, n_sources in pairs)
    assert len(pairs) == 3 + 4 + 5 + 6


def test_the_mean_and_nine_records_in_ten_must_reach_it() -> None:
    assert is_skip_path(np.full(10, 0.5), 4)
    assert not is_skip_path(np.full(10, 0.4999), 4)
    assert is_skip_path(np.array([0.9] * 9 + [0.4]), 4)
    assert not is_skip_path(np.array([0.9] * 8 + [0.4] * 2), 4)
    assert not is_skip_path(np.array([]), 4)
    assert not is_skip_path(np.full(10, np.nan), 4)


def test_the_first_step_is_where_it_crossed_and_stayed() -> None:
    series = np.array([0.0, 0.6, 0.0, 0.0, 0.6] + [0.6] * 10)
    assert crossed_and_stayed(series, 0.5) == 4
    assert crossed_and_stayed(np.array([0.6, 0.6]), 0.5) == 0
    assert crossed_and_stayed(np.array([0.6, 0.0]), 0.5) == -1


def test_a_planted_path_is_found_with_its_numbers() -> None:
    steps = np.arange(0, 200, 10)
    weight = uniform(20)
    weight[5:, 5, 1] = 0.5
    contribution = uniform(20)
    contribution[:, 5, 1] = 0.4
    (path,) = described(weight, contribution, steps)
    assert (path.target, path.target_name, path.source, path.source_name) == (6, "layers.5", 1, "sublayer 1")
    assert (path.distance, path.n_sources) == (5, 6)
    assert (path.weight, path.contribution, path.above) == pytest.approx((0.5, 0.4, 1.0))
    assert path.times_uniform == pytest.approx(3.0)
    assert (path.first_step, path.cadence, path.weight_only) == (50, 10, False)


def test_a_path_whose_source_hardly_enters_the_read_is_weight_only() -> None:
    weight, contribution = uniform(10), uniform(10)
    weight[:, 3, 0] = 0.6
    contribution[:, 3, 0] = 0.12  # below 1 / (2 * 4)
    (path,) = described(weight, contribution, np.arange(10))
    assert path.weight_only
    assert path_words(path, 9, 0) == (
        "sublayer 4 gives the embedding a weight of 0.60 at step 9 (mean of the last record 0.60), yet only 12 % "
        "of its read."
    )


def test_a_sentence_tells_the_value_at_its_step_from_the_mean_that_makes_the_path() -> None:
    weight, contribution = uniform(20), uniform(20)
    weight[:, 3, 0], contribution[:, 3, 0] = 0.6, 0.3
    weight[-1, 3, 0], contribution[-1, 3, 0] = 0.8, 0.5
    (path,) = described(weight, contribution, np.arange(0, 200, 10))
    assert (path.weight, path.last_weight, path.records) == pytest.approx((0.7, 0.8, 2))
    assert path_words(path, 190, 0) == (
        "sublayer 4 gives the embedding a weight of 0.80 at step 190 (mean of the last 2 records 0.70), 50 % of "
        "its read."
    )


def test_a_negative_contribution_is_as_real_as_a_positive_one() -> None:
    weight, contribution = uniform(10), uniform(10)
    weight[:, 3, 0] = 0.6
    for held, weight_only in ((0.2, False), (-0.2, False), (0.12, True), (-0.12, True)):
        contribution[:, 3, 0] = held
        (path,) = described(weight, contribution, np.arange(10))
        assert path.weight_only is weight_only


def test_without_contribution_no_word_is_said_about_it() -> None:
    weight = uniform(10)
    weight[:, LAYERS, 0] = 0.7
    (path,) = described(weight, None, np.arange(10))
    assert np.isnan(path.contribution)
    assert not path.weight_only
    assert path_words(path, 9, 2) == (
        "the final read gives the embedding a weight of 0.70 at step 9 (mean of the last record 0.70), "
        "contribution not recorded; 2 more skip paths."
    )


def test_a_high_weight_on_the_newest_source_is_no_skip_path() -> None:
    weight = uniform(10)
    weight[:, 5, 5] = 0.9
    assert described(weight, None, np.arange(10)) == []


@given(seed=st.integers(0, 100_000))
def test_null_series_raise_no_skip_path(seed: int) -> None:
    """Slow autocorrelated wandering of the logits around uniform, as at a small learning rate."""
    random = np.random.default_rng(seed)
    walk = np.cumsum(random.normal(scale=0.01, size=(100, LAYERS + 1, LAYERS + 1)), axis=0)
    weight = np.where(np.isnan(uniform(100)), 0, np.exp(walk))
    weight = np.where(np.isnan(uniform(100)), np.nan, weight / weight.sum(axis=-1, keepdims=True))
    assert described(weight, None, np.arange(100)) == []


@given(seed=st.integers(0, 100_000), scale=st.floats(0.01, 1.0))
def test_whatever_the_series_every_path_meets_the_criteria(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    walk = np.cumsum(random.normal(scale=scale, size=(50, LAYERS + 1, LAYERS + 1)), axis=0)
    weight = np.where(np.isnan(uniform(50)), 0, np.exp(walk - walk.max(axis=-1, keepdims=True)))
    weight /= weight.sum(axis=-1, keepdims=True)
    for path in described(weight, None, np.arange(50)):
        late = weight[-5:, path.target - 1, path.source]
        assert path.distance >= 2
        assert path.n_sources >= 4
        assert late.mean() >= max(2 / path.n_sources, 0.1)
        assert np.mean(late >= max(2 / path.n_sources, 0.1)) >= 0.9
        assert weight[path.first_step, path.target - 1, path.source] >= max(2 / path.n_sources, 0.1)
