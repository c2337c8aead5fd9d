"""`depthscope doctor --verify` among ranks: every rank runs its step, rank 0 prints."""

from __future__ import annotations

import pytest

from tests.ranks.launching import torchrun


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_the_step_of_two_ranks_is_held_against_that_of_the_whole_batch(how: str) -> None:
    """Accumulated without communication and clipped under DDP; sharded, against a module that was not."""
    printed = torchrun(2, "-m", "depthscope", "doctor", "--verify", f"tests.testing.setups:{how}")
    assert printed.count("One step of") == 1
    assert ", 2 ranks, against fp64" in printed
    assert "all agree" in printed
    compared = {line.split()[1] for line in printed.splitlines() if line.startswith("ok ")}
    assert {"grad_write_rms", "param_grad_norm", "grad_norm", "fresh_share", "loss_tokens"} <= compared


def test_a_sharded_model_without_a_reference_is_told_what_to_give() -> None:
    printed = torchrun(
        2, "-m", "depthscope", "doctor", "--verify", "tests.testing.setups:sharded_without_reference", code=1
    )
    assert "give 'reference', the same module before fully_shard" in printed
