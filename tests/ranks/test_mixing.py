"""The mixing among ranks: of all ranks' samples together, or absent where a replay would cost too much."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from depthscope.mixing import measure_mixing
from tests.ranks.launching import left_by
from tests.ranks.models import batch_of, together, trained

NAMES = ("mixing_contribution", "mixing_coefficient", "mixing_cancellation")


def test_under_ddp_it_is_that_of_one_process_on_all_samples(two_ranks: Path) -> None:
    for design in ("prenorm", "block-attnres:S=3"):
        left = left_by(two_ranks, f"one_step/{design}/ddp")
        inputs, _ = together([batch_of(0), batch_of(1)])
        expected = measure_mixing(trained(design), inputs)
        for name in NAMES:
            found = left["rows"]["slow"][0][name]
            np.testing.assert_allclose(found, expected[name], atol=2e-6, err_msg=name)


def test_sharded_parameters_are_a_reason(two_ranks: Path) -> None:
    left = left_by(two_ranks, "one_step/full-attnres/fsdp")
    for name in NAMES:
        assert "the parameters are sharded over ranks" in left["missing"][name]
        assert name not in left["rows"]["slow"][0]


def test_a_model_that_may_talk_to_other_ranks_is_not_replayed(two_ranks: Path) -> None:
    """The recorder got what lies inside DDP: it cannot know that nothing waits in there."""
    left = left_by(two_ranks, "inner/foreign/ddp")
    assert not set(NAMES) & left["rows"].get("slow", {}).get(0, {}).keys()
