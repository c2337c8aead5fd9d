"""Fault 26: under DDP the gradients are those after the all-reduce, which the optimizer uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ranks.expected import compare, parameter_gradients, row_of
from tests.ranks.launching import left_by
from tests.ranks.models import batch_of, together, trained


@pytest.mark.parametrize("design", ["prenorm", "block-attnres:S=3", "foreign"])
def test_gradients_are_those_of_the_mean_over_the_ranks(design: str, two_ranks: Path) -> None:
    row = left_by(two_ranks, f"one_step/{design}/ddp")["rows"]["fast"][0]
    model = trained(design)
    row_of(model, *together([batch_of(rank) for rank in range(2)]))
    compare(row, parameter_gradients(model))


@pytest.mark.parametrize("rank", [0, 1])
def test_each_ranks_own_would_be_others(rank: int, two_ranks: Path) -> None:
    row = left_by(two_ranks, "one_step/prenorm/ddp")["rows"]["fast"][0]
    own = row_of(trained("prenorm"), *batch_of(rank))
    assert abs(own["grad_norm"] / row["grad_norm"] - 1) > 0.05
    assert np.abs(own["param_grad_norm"] / row["param_grad_norm"] - 1).max() > 0.05
