"""Fault 29: micro-batches whose gradients are not reduced yet belong to the row of the step that reduces them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.store import open_run
from tests.ranks.expected import compare, row_of
from tests.ranks.launching import left_by
from tests.ranks.models import micro_batch_of, together, trained


@pytest.mark.parametrize("scenario", ["accumulated/prenorm/ddp", "accumulated/foreign/fsdp"])
def test_all_micro_batches_of_all_ranks_are_one_row(scenario: str, two_ranks: Path) -> None:
    """DDP's ``no_sync``, and FSDP2's ``set_requires_gradient_sync(False)``, on the first of two."""
    parts = [micro_batch_of(rank, micro) for rank in range(2) for micro in range(2)]
    expected = row_of(trained(scenario.split("/")[1]), *together(parts))
    row = left_by(two_ranks, scenario)["rows"]["fast"][0]
    clipped = {name for name in expected if name.endswith("grad_norm")}
    compare(row, {name: value for name, value in expected.items() if name not in clipped | {"loss"}})
    np.testing.assert_allclose(row["grad_norm_before_clip"], expected["grad_norm"], rtol=1e-5)
    run = open_run(two_ranks / scenario.replace("/", "-"))
    assert run["loss_tokens"].step.values.tolist() == [0, 1]
    assert run["loss_tokens"].values[0] == sum(inputs.numel() for inputs, _ in parts)


@pytest.mark.parametrize("scenario", ["discarded/prenorm/ddp", "discarded/foreign/fsdp"])
def test_a_micro_batch_whose_gradients_were_thrown_away_belongs_to_none(
    scenario: str, two_ranks: Path
) -> None:
    run = open_run(two_ranks / scenario.replace("/", "-"))
    one = open_run(two_ranks / scenario.replace("discarded", "one_step").replace("/", "-"))
    assert run["loss_tokens"].values.tolist() == one["loss_tokens"].values.tolist()
    np.testing.assert_allclose(run["state_rms"].values, one["state_rms"].values, rtol=1e-6)
