"""Gradient uniformity looks at the last state of each transformer block."""

import numpy as np
import pytest

from depthscope.analysis.gradient_uniformity import uniformity

BLOCKS = (1, 1, 2, 2, 3, 3)


def test_ratio_and_population_variation_by_hand() -> None:
    # Last states 2, 4, 6: max / min 3, mean 4, population std sqrt(8/3).
    assert uniformity(np.array([99, 2.0, 99, 4.0, 99, 6.0]), BLOCKS) == pytest.approx(
        (3.0, np.sqrt(8 / 3) / 4)
    )


def test_equal_gradients_are_uniform() -> None:
    assert uniformity(np.full(6, 0.3), BLOCKS) == pytest.approx((1.0, 0.0))


@pytest.mark.parametrize("broken", [0.0, np.nan, np.inf, -1.0])
def test_one_value_that_is_no_size_leaves_nothing_to_say(broken: float) -> None:
    assert uniformity(np.array([1, 1.0, 1, broken, 1, 1.0]), BLOCKS) is None


def test_one_transformer_block_has_no_spread() -> None:
    assert uniformity(np.array([1.0, 2.0]), (1, 1)) is None
