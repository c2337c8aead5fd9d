"""Which windows a step sees."""

from __future__ import annotations

import pytest
import torch

from depthscope.training import training_batch, validation_batches

TEXT = torch.arange(200, dtype=torch.uint8)


def test_a_window_is_consecutive_bytes():
    batch = training_batch(TEXT, 3, seed=0, batch=5, context=8)
    assert batch.shape == (5, 9)
    assert batch.dtype == torch.int64
    assert torch.equal(batch - batch[:, :1], torch.arange(9).expand(5, 9))


def test_a_batch_depends_on_seed_and_step_only():
    torch.manual_seed(1)
    first = training_batch(TEXT, 3, seed=0, batch=5, context=8)
    torch.manual_seed(2)
    assert torch.equal(first, training_batch(TEXT, 3, seed=0, batch=5, context=8))
    others = [(4, 0), (3, 1), (0, 3)]
    assert not any(
        torch.equal(first, training_batch(TEXT, step, seed=seed, batch=5, context=8)) for step, seed in others
    )


def test_a_batch_leaves_the_global_random_state_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    training_batch(TEXT, 0, seed=0, batch=5, context=8)
    assert torch.equal(torch.rand(3), expected)


def test_every_place_of_the_text_is_reached():
    starts = {
        int(row[0]) for step in range(200) for row in training_batch(TEXT, step, seed=0, batch=20, context=8)
    }
    assert starts == set(range(192))


def test_validation_windows_spread_over_the_text_from_end_to_end():
    batches = validation_batches(TEXT, count=2, batch=3, context=8)
    assert [batch.shape for batch in batches] == [(3, 9)] * 2
    starts = torch.cat(batches)[:, 0].tolist()
    assert starts == [0, 38, 76, 114, 152, 191]


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(ValueError, match="8 bytes holds no window of 9"):
        training_batch(TEXT[:8], 0, seed=0, batch=1, context=8)
