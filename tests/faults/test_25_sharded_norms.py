"""Fault 25: under FSDP2 a gradient norm is the global one, not that of the shard which a rank holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ranks.expected import compare, parameter_gradients, row_of
from tests.ranks.launching import left_by
from tests.ranks.models import batch_of, micro_batch_of, together, trained


def norms_of_shards(design: str, world: int) -> list[float]:
    """What each rank would find by itself: of its rows of every gradient of the global batch."""
    model = trained(design)
    row_of(model, *together([batch_of(rank) for rank in range(world)]))
    squares = np.zeros(world)
    for parameter in model.parameters():
        for rank, part in enumerate(parameter.grad.double().chunk(world)):
            squares[rank] += float(part.square().sum())
    return np.sqrt(squares).tolist()


@pytest.mark.parametrize("design", ["foreign", "full-attnres", "hires:B=2,n=2"])
def test_norms_are_those_of_the_whole_gradient(design: str, two_ranks: Path) -> None:
    row = left_by(two_ranks, f"one_step/{design}/fsdp")["rows"]["fast"][0]
    model = trained(design)
    whole = row_of(model, *together([batch_of(rank) for rank in range(2)]))["grad_norm"]
    compare(row, parameter_gradients(model))
    shards = norms_of_shards(design, 2)
    np.testing.assert_allclose(np.linalg.norm(shards), whole, rtol=1e-9)
    assert max(shards) < 0.95 * whole


def test_a_norm_that_comes_as_a_dtensor_is_put_together(two_ranks: Path) -> None:
    """``clip_grad_norm_`` gives every rank its part: recorded is what ``full_tensor()`` would say."""
    row = left_by(two_ranks, "accumulated/foreign/fsdp")["rows"]["fast"][0]
    parts = [micro_batch_of(rank, micro) for rank in range(2) for micro in range(2)]
    whole = row_of(trained("foreign"), *together(parts))["grad_norm"]
    np.testing.assert_allclose(row["grad_norm_before_clip"], whole, rtol=1e-5)
