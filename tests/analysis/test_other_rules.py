"""Attention sinks, dead queries, massive activations, gains, token gaps and non-finite values, by hand."""

import numpy as np
import pytest

from depthscope.analysis.attention_sink import sinks
from depthscope.analysis.dead_query import trained_long_enough, unmoved, without_gradient
from depthscope.analysis.gain import beyond
from depthscope.analysis.massive_activation import massive
from depthscope.analysis.nonfinite import broken_layers, first_broken_scalar
from depthscope.analysis.token_gap import token_gap

SOURCES = ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4))
NAMES = ("embedding", "sublayer 1", "sublayer 2", "sublayer 3", "sublayer 4")


def test_a_sink_draws_more_than_three_times_uniform_from_targets_of_four_sources() -> None:
    weight = np.full((5, 5), 0.1)
    weight[:3, 0] = 1.0  # targets of fewer than four sources do not count
    weight[3, 0], weight[4, 0] = 0.85, 0.7
    (sink,) = sinks(weight, weight / 2, SOURCES, NAMES)
    assert sink.source_name == "embedding"
    assert sink.times_uniform == pytest.approx((0.85 * 4 + 0.7 * 5) / 2)
    assert sink.contribution == pytest.approx((0.85 + 0.7) / 4)
    assert sink.targets == 2
    weight[3, 0], weight[4, 0] = 0.75, 0.6
    assert sinks(weight, None, SOURCES, NAMES) == []


def test_the_newest_source_is_never_a_sink() -> None:
    weight = np.full((5, 5), 0.01)
    weight[3, 3] = weight[4, 4] = 0.97
    assert sinks(weight, None, SOURCES, NAMES) == []


def test_a_query_is_without_gradient_only_where_it_is_exactly_zero_at_every_record() -> None:
    gradient = np.array([[0.0, 0.0, 1e-30, np.nan], [0.0, 0.1, 1e-30, np.nan]])
    assert without_gradient(gradient).tolist() == [True, False, False, False]


def test_a_query_that_stays_within_1e_4_of_its_start_is_unmoved() -> None:
    norms = np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.2], [0.5, 9e-5, 1.0], [2e-4, 9e-5, 1.00005]])
    assert unmoved(norms, 2).tolist() == [False, True, True]
    assert unmoved(norms, 3).tolist() == [False, False, False]


def test_ten_percent_of_the_planned_steps_must_have_passed() -> None:
    assert not trained_long_enough(29, 29, 300)
    assert trained_long_enough(30, 30, 300)
    assert trained_long_enough(5, 5, None)
    assert not trained_long_enough(0, 0, None)


def test_massive_means_above_100_and_above_1000_medians() -> None:
    largest, median = np.array([150.0, 150.0, 90.0, 150.0]), np.array([0.1, 0.2, 0.01, np.nan])
    assert massive(largest, median).tolist() == [True, False, False, False]


def test_gains_outside_a_tenth_to_ten() -> None:
    high, low = beyond(np.array([10.0, 10.1, 0.1, 0.09, np.nan]))
    assert (high.tolist(), low.tolist()) == ([2], [4])


def test_the_token_gap_of_one_massive_token_in_2048() -> None:
    sizes = np.ones(2048)
    sizes[0] = 128.0  # mean square (2047 + 16384) / 2048 = 9: the rms is three times the typical token
    rms, logrms = np.sqrt((sizes**2).mean()), np.log(sizes).mean()
    gap = token_gap(np.array([rms]), np.array([logrms]))
    assert rms == pytest.approx(3.0, rel=1e-3)
    assert gap[0] == pytest.approx(np.log(3.0), abs=3e-3)


def test_layers_with_a_count_are_broken() -> None:
    assert broken_layers(np.array([0, 2, np.nan, 1])).tolist() == [2, 4]
    assert broken_layers(np.zeros(3)).size == 0


@pytest.mark.parametrize(
    ("values", "record"),
    [
        ([1.0, 2.0, 3.0], -1),
        ([1.0, np.inf, 3.0], 1),
        ([1.0, np.nan, np.nan], 1),
        ([np.nan, 1.0, np.nan, 2.0], -1),
        ([np.nan, np.nan], -1),
    ],
)
def test_a_nan_that_may_mean_not_given_is_not_called_broken(values: list[float], record: int) -> None:
    assert first_broken_scalar(np.array(values)) == record


def test_an_infinite_gradient_of_a_skipped_step_is_the_loss_scaler_at_work() -> None:
    values, skipped = np.array([1.0, np.inf, 1.0]), np.array([0.0, 1.0, 0.0])
    assert first_broken_scalar(values, skipped) == -1
    assert first_broken_scalar(values, np.zeros(3)) == 1
