"""Findings say numbers in two or three significant digits and never say what a number cannot carry."""

import math

import pytest

from depthscope.analysis.wording import (
    course,
    layers_words,
    percent,
    significant,
    source_words,
    span,
    target_words,
    times,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.6449, "1.6"),
        (36.2, "36"),
        (0.4412, "0.44"),
        (0.0501, "0.050"),
        (9.96, "10"),
        (1234.0, "1200"),
        (2.0, "2.0"),
        (-0.123, "-0.12"),
        (0.0, "0"),
        (3.21e-7, "3.2e-7"),
        (4.56e9, "4.6e9"),
        (math.nan, "NaN"),
        (math.inf, "infinite"),
        (-math.inf, "minus infinite"),
    ],
)
def test_numbers_keep_two_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_three_digits_on_request() -> None:
    assert significant(1234.0, 3) == "1230"
    assert significant(0.012345, 3) == "0.0123"


def test_ratios_ranges_and_shares_read_as_in_the_app() -> None:
    assert times(1.58) == "1.6×"
    assert span(1.88, 2.51) == "1.9–2.5"
    assert span(2.01, 2.02) == "2.0"
    assert percent(0.0101) == "1 %"
    assert percent(0.0123) == "1.2 %"
    assert percent(0.4123) == "41 %"
    assert percent(-0.05) == "-5 %"
    assert percent(1.0) == "100 %"


def test_a_number_that_hardly_changes_stays_where_it_is() -> None:
    assert course("falls", 0.461, 0.138) == "falls from 0.46 to 0.14"
    assert course("rises", 0.136, 0.144) == "stays near 0.14"  # 6 %, and both read the same
    assert course("falls", 0.1249, 0.1201) == "stays near 0.12"
    assert course("falls", 0.104, 0.100) == "stays near 0.10"
    assert course("rises", 0.99, 1.03) == "stays near 1.0"  # 4 %, and they read differently


def test_places_have_names() -> None:
    assert target_words("layers.6.attention", 7) == "sublayer 7"
    assert target_words("output", 25) == "the final read"
    assert source_words("embedding") == "the embedding"
    assert source_words("block 2") == "block 2"
    assert layers_words([3]) == "sublayer 3"
    assert layers_words([3, 4, 9]) == "sublayers 3, 4 and 9"
    assert layers_words([1, 2, 3, 4, 5]) == "5 sublayers"
