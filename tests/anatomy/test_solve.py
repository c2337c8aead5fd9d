"""The search for the set of outputs that sums to what a block adds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depthscope.anatomy.solve import explain


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24), st.data())
def test_the_set_that_was_summed_is_found_among_distinct_tensors(count, data):
    chosen = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    generator = torch.Generator().manual_seed(count)
    values = list(torch.randn(count, 300, generator=generator, dtype=torch.float64))
    total = sum(values[index] for index in chosen)
    assert explain(total, values, 1e-8) == tuple(sorted(chosen))


@pytest.mark.parametrize("seed", range(10))
def test_of_equal_tensors_the_last_is_taken(seed):
    a, b = torch.randn(2, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert explain(a + b, [a, a.clone(), b, b.clone()], 1e-8) == (1, 3)


def test_the_smallest_set_is_taken():
    a, b = torch.randn(2, 50, dtype=torch.float64)
    assert explain(a + b, [a, b, a + b], 1e-8) == (2,)


def test_tensors_of_zero_are_never_taken():
    a = torch.randn(50, dtype=torch.float64)
    assert explain(a, [a, torch.zeros_like(a)], 1e-8) == (0,)


def test_nothing_added_is_explained_by_nothing():
    a = torch.randn(50, dtype=torch.float64)
    assert explain(torch.zeros_like(a), [a], 1e-8) is None


def test_a_scaled_sum_is_not_taken_for_a_sum():
    a, b = torch.randn(2, 50, dtype=torch.float64)
    assert explain(a + 0.99 * b, [a, b], 1e-6) is None
