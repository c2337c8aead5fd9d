"""Dilution: slopes and quarters of the newest write's share, attention and MLP apart."""

import numpy as np
import pytest

from depthscope.analysis.dilution import dilution, kind_exponents, quarter_means

KINDS = ("attention", "mlp") * 4


def test_quarters_are_means_over_l_quarter_sublayers() -> None:
    assert quarter_means(np.array([4.0, 2.0, 9, 9, 9, 9, 1.0, 0.5])) == (3.0, 0.75)


def test_entries_that_do_not_exist_are_left_out_of_a_quarter() -> None:
    assert quarter_means(np.array([np.nan, 2.0, 9, 9, 9, 9, 1.0, np.nan])) == (2.0, 1.0)


def test_attention_and_mlp_get_their_own_exponents() -> None:
    layer = np.arange(1.0, 9.0)
    share = np.where(np.arange(8) % 2 == 0, 0.5 * layer**-1.0, 0.9 * layer**-0.25)
    assert kind_exponents(share, KINDS, "attention") == pytest.approx(-1.0)
    assert kind_exponents(share, KINDS, "mlp") == pytest.approx(-0.25)


def test_shares_that_are_not_positive_have_no_place_in_a_slope_but_are_counted() -> None:
    layer = np.arange(1.0, 9.0)
    share = 1 / layer
    share[4] = -0.1
    found = dilution(share[None], KINDS)
    assert found is not None
    assert found.not_positive == 1
    assert found.exponent_attention == pytest.approx(-1.0)
    share[[2, 6]] = 0
    assert np.isnan(kind_exponents(share, KINDS, "attention"))


def test_every_record_has_its_own_slope() -> None:
    layer = np.arange(1.0, 9.0)
    powers = np.array([-1.0, 0.0, 0.5])
    found = kind_exponents(layer ** powers[:, None], KINDS, "mlp")
    assert found == pytest.approx(powers)


def test_ranges_are_over_the_records_handed_in_and_the_value_is_the_newest() -> None:
    rows = np.ones((3, 8))
    rows[:, -2:] = np.array([0.25, 0.75, 0.5])[:, None]
    found = dilution(rows, KINDS)
    assert found is not None
    assert found.ratio == 0.5
    assert found.ratio_range == (0.25, 0.75)
    assert (found.first_quarter, found.last_quarter, found.records) == (1.0, 0.5, 3)


def test_nothing_is_said_without_a_positive_first_quarter() -> None:
    assert dilution(np.full((1, 8), np.nan), KINDS) is None
    assert dilution(-np.ones((1, 8)), KINDS) is None
