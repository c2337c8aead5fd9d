"""The demo leaves room for the page and the browser."""

from __future__ import annotations

import pytest
import torch

from depthscope.training.threads import half_the_threads


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_half_the_threads_are_used_and_given_back(monkeypatch, four_threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with half_the_threads():
        assert torch.get_num_threads() == 2
        with half_the_threads(), half_the_threads():
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 4


def test_a_number_that_was_asked_for_stays(monkeypatch, four_threads):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    with half_the_threads():
        assert torch.get_num_threads() == 4
