"""Block boundaries: reset and construction ratios, read change, periodicity and boundedness by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthscope.analysis.block_boundary import (
    boundaries,
    construction_ratios,
    periodicity,
    read_changes,
    reset_ratios,
)
from depthscope.analysis.block_control import virtual_blocks
from depthscope.analysis.block_sums import block_sums
from depthscope.analysis.depth import ends, positions, starts

RESIDUAL = (1, 1, 1, 1, 2, 2, 2, 2)
TRANSFORMER = (1, 1, 2, 2, 3, 3, 4, 4)


def test_blocks_begin_end_and_count_positions() -> None:
    assert ends(RESIDUAL).tolist() == [3, 7]
    assert starts(RESIDUAL).tolist() == [0, 4]
    assert positions((1, 1, 1, 2, 2)).tolist() == [0, 1, 2, 0, 1]


def test_a_boundary_compares_the_state_after_the_transformer_blocks_beside_it() -> None:
    (edge,) = boundaries(RESIDUAL, TRANSFORMER)
    state = np.array([1, 1, 1, 6.0, 1, 1.5, 1, 1])
    assert reset_ratios(state, [edge]).tolist() == [4.0]


def test_a_transformer_block_that_straddles_a_boundary_counts_on_each_side() -> None:
    (edge,) = boundaries((1, 1, 1, 2, 2), (1, 1, 2, 2, 3))
    assert (edge.before, edge.after, edge.settled) == (2, 3, 3)


def test_the_construction_ratio_of_equal_writes_is_the_root_of_the_counts() -> None:
    edges = boundaries(RESIDUAL, TRANSFORMER)
    assert construction_ratios(np.ones(8), edges) == pytest.approx([np.sqrt(4 / 2)])
    assert construction_ratios(np.array([1, 1, 1, 1, 3.0, 4.0, 1, 1]), edges) == pytest.approx([2 / 5])


def test_the_read_changes_from_the_last_sublayer_to_the_next() -> None:
    edges = boundaries(RESIDUAL, TRANSFORMER)
    assert read_changes(np.array([1, 1, 1, 2.0, 5.0, 1, 1, 1]), edges).tolist() == [2.5]


@given(
    pattern=st.lists(st.floats(-2, 2), min_size=2, max_size=8).filter(lambda values: np.ptp(values) > 0.1),
    trend=st.floats(-0.5, 0.5),
    blocks=st.integers(2, 6),
)
def test_a_pattern_repeated_in_every_block_is_fully_periodic_whatever_the_trend(
    pattern: list[float], trend: float, blocks: int
) -> None:
    size = len(pattern)
    logs = np.tile(pattern, blocks) + trend * np.repeat(np.arange(blocks), size)
    assert periodicity(np.exp(logs), np.repeat(np.arange(blocks), size).tolist()) == pytest.approx(1.0)


def test_periodicity_by_hand() -> None:
    # Two blocks of two: logs 0 2 | 1 2. Block means 1 and 1.5, so a trend of 0.25 a sublayer leaves
    # 0, 1.75, 0.5, 1.25: positions have means 0.25 and 1.5, within 0.25, total 1.8125, N = 4, G = 2.
    value = periodicity(np.exp([0.0, 2.0, 1.0, 2.0]), (1, 1, 2, 2))
    assert value == pytest.approx(1 - 0.25 / 1.8125 * 3 / 2)


def test_smooth_growth_is_hardly_periodic() -> None:
    layer = np.arange(1.0, 25.0)
    assert periodicity(np.sqrt(layer + 1), np.repeat([1, 2, 3, 4], 6).tolist()) < 0.2


@pytest.mark.parametrize(
    ("state", "blocks"),
    [
        (np.ones(4), (1, 1, 2, 2)),
        (np.array([1.0, 2.0, 3.0]), (1, 2, 3)),
        (np.array([1.0, 2.0, 3.0]), (1, 1, 2)),
        (np.array([1.0, np.nan, 1.0, 2.0]), (1, 1, 2, 2)),
    ],
)
def test_periodicity_is_nan_where_it_is_not_defined(state: np.ndarray, blocks: tuple[int, ...]) -> None:
    assert np.isnan(periodicity(state, blocks))


def test_block_sums_are_the_states_at_block_ends() -> None:
    sums = block_sums(np.array([9, 9, 9, 1.0, 9, 9, 9, np.e]), RESIDUAL)
    assert sums is not None
    assert sums.block_rms == pytest.approx((1.0, np.e))
    assert sums.slope == pytest.approx(1.0)
    assert (sums.low, sums.high, sums.first, sums.last) == pytest.approx((1.0, np.e, 1.0, np.e))


def test_one_block_is_no_series() -> None:
    assert block_sums(np.ones(4), (1, 1, 1, 1)) is None


def test_virtual_blocks_bound_the_sums_that_are_not_recorded() -> None:
    found = virtual_blocks(np.array([3.0, 4.0, 1.0, 1.0]), np.array([3.0, 5.0, 5.1, 5.5]), 0.5, (1, 1, 2, 2))
    assert found.uncorrelated == pytest.approx((5.0, np.sqrt(2)))
    assert found.at_least == pytest.approx((4.5, 0.5))
    assert found.at_most == pytest.approx((5.5, 2.0))


@given(seed=st.integers(0, 10_000))
def test_the_true_rms_of_a_virtual_blocks_sum_lies_within_the_bounds(seed: int) -> None:
    random = np.random.default_rng(seed)
    writes = random.normal(size=(6, 5, 4)) * random.exponential(size=(6, 1, 1))
    embedding = random.normal(size=(5, 4))
    states = embedding + np.cumsum(writes, axis=0)

    def rms(tensor: np.ndarray) -> np.ndarray:
        return np.sqrt((tensor**2).mean(axis=(-2, -1)))

    found = virtual_blocks(rms(writes), rms(states), float(rms(embedding)), (1, 1, 1, 2, 2, 2))
    for block, (low, high) in enumerate(zip(found.at_least, found.at_most, strict=True)):
        true = float(rms(writes[3 * block : 3 * block + 3].sum(axis=0)))
        assert low - 1e-9 <= true <= high + 1e-9
