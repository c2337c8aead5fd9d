"""State growth is the slope and the ratio that a hand calculation gives, and only where they are defined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthscope.analysis.state_growth import growth_words, state_growth

BLOCKS = (1, 1, 2, 2, 3, 3)


@given(power=st.floats(-2, 2), scale=st.floats(1e-3, 1e3), blocks=st.integers(3, 20))
def test_a_power_law_gives_its_own_exponent(power: float, scale: float, blocks: int) -> None:
    layer = np.arange(1, 2 * blocks + 1)
    growth = state_growth(scale * (layer + 1.0) ** power, np.repeat(np.arange(1, blocks + 1), 2).tolist())
    assert growth is not None
    assert growth.exponent == pytest.approx(power, abs=1e-9)
    assert growth.per_doubling == pytest.approx(2**power)
    assert growth.ratio == pytest.approx(((2 * blocks + 1) / 3) ** power)


def test_ratio_compares_the_states_after_the_last_and_the_first_transformer_block() -> None:
    growth = state_growth(np.array([9.0, 2.0, 2.5, 3.0, 4.0, 5.0]), BLOCKS)
    assert growth is not None
    assert (growth.first, growth.last, growth.ratio) == (2.0, 5.0, 2.5)


def test_the_first_transformer_block_is_left_out_of_the_slope() -> None:
    layer = np.arange(1, 7)
    state = np.sqrt(layer + 1.0)
    state[:2] = 1e-4
    growth = state_growth(state, BLOCKS)
    assert growth is not None
    assert growth.exponent == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("state", "blocks"),
    [
        ([1.0, 2.0], (1, 1)),
        ([1.0, np.nan, 1.0, 2.0, 3.0, 4.0], BLOCKS),
        ([1.0, np.inf, 1.0, 2.0, 3.0, 4.0], BLOCKS),
        ([1.0, 0.0, 1.0, 2.0, 3.0, 4.0], BLOCKS),
    ],
)
def test_nothing_is_said_where_it_is_not_defined(state: list[float], blocks: tuple[int, ...]) -> None:
    assert state_growth(np.array(state), blocks) is None


def test_words_say_which_way_it_goes() -> None:
    assert growth_words(1.64) == "state rms grows 1.6× from first to last transformer block."
    assert growth_words(0.5) == "state rms falls to 0.50× from first to last transformer block."
    assert growth_words(1.02) == "state rms changes by 2 % from first to last transformer block."
