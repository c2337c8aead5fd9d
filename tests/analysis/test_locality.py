"""Locality: weights of the newest source and of the embedding against uniform, entropy by kind of read."""

from __future__ import annotations

import numpy as np
import pytest

from depthscope.analysis import findings
from depthscope.analysis.locality import locality
from tests.analysis.synthetic_runs import WriteRun, block_layout, uniform_attention

SOURCES = tuple(tuple(range(target + 1)) for target in range(7))
KINDS = ("attention", "mlp") * 3


def test_uniform_weights_are_one_times_uniform() -> None:
    weight = np.full((7, 7), np.nan)
    for target in range(7):
        weight[target, : target + 1] = 1 / (target + 1)
    found = locality(weight, np.ones(7), SOURCES, KINDS)
    assert found is not None
    assert (found.newest, found.embedding) == pytest.approx((1.0, 1.0))
    assert found.targets == 4, "reads of four to seven sources"
    assert (found.entropy_attention, found.entropy_mlp) == (1.0, 1.0)


def test_only_targets_of_four_sources_or_more_count_each_against_its_own_uniform() -> None:
    weight = np.full((7, 7), 0.0)
    weight[:3] = 1.0
    weight[3, [0, 3]] = 0.5, 0.25
    weight[4, [0, 4]] = 0.2, 0.6
    weight[5, [0, 5]] = 0.5, 0.5
    weight[6, [0, 6]] = 1 / 7, 2 / 7
    entropy = np.array([9.0, 9.0, 9.0, 0.5, 0.9, 0.7, 0.1])
    found = locality(weight, entropy, SOURCES, KINDS)
    assert found is not None
    assert found.newest == pytest.approx((1 + 3 + 3 + 2) / 4)
    assert found.embedding == pytest.approx((2 + 1 + 3 + 1) / 4)
    assert found.entropy_attention == pytest.approx(0.9)
    assert found.entropy_mlp == pytest.approx((0.5 + 0.7) / 2), "the final read is neither"


def test_without_such_targets_there_is_nothing_to_say() -> None:
    assert locality(np.ones((3, 3)), None, SOURCES[:3], KINDS) is None


def test_the_sentence_is_about_the_step_of_its_evidence(write_run: WriteRun) -> None:
    layout = block_layout(16, 4)
    weight = np.stack([uniform_attention(layout)] * 20)
    for target, columns in enumerate(layout.sources):
        if len(columns) >= 4:
            weight[-1, target, list(columns)] = 0.0
            weight[-1, target, [0, max(columns)]] = 0.25, 0.75
    entropy = np.tile(np.where(np.arange(17) % 2, 0.4, 0.8), (20, 1))
    values = {"depth_attention": weight, "depth_attention_entropy": entropy}
    (found,) = [entry for entry in findings(write_run("run", layout, values)) if entry.kind == "locality"]
    # Sublayers 10 to 13 read four sources, 14 to 16 and the final read five.
    assert found.values["newest"] == pytest.approx(0.75 * 4.5)
    assert found.text == (
        "over 8 targets the newest source has 3.4 and the embedding 1.1 times its uniform weight at step 190; "
        "entropy 0.80 pre-attention, 0.40 pre-MLP."
    )
    assert (found.page, found.quantity, found.step) == ("attention", "depth_attention", 190)
