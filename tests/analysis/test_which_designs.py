"""Which designs have one accumulated stream, and in which the sum of writes restarts."""

from __future__ import annotations

from dataclasses import replace

from depthscope.analysis.rule import one_stream, restarts
from depthscope.analysis.skip_path import no_mixers, no_shares
from depthscope.quantities import DepthLayout, quantity, reachable
from tests.analysis.synthetic_runs import block_layout, prenorm_layout


def hires_layout() -> DepthLayout:
    """Writes go to the inner stream they read, but an outer state carries it from block to block."""
    return replace(prenorm_layout(), residual_block=(1, 1, 1, 1, 2, 2, 2, 2), outer_blocks=2, outer_width=16)


def full_layout() -> DepthLayout:
    return replace(block_layout(8, 1), residual_block=(0,) * 8)


def test_only_a_plain_additive_stack_is_one_stream() -> None:
    assert one_stream(prenorm_layout())
    assert not one_stream(block_layout())
    assert not one_stream(full_layout())
    assert not one_stream(hires_layout())
    assert not one_stream(replace(prenorm_layout(), additive=(True,) * 7 + (False,)))
    assert not one_stream(replace(prenorm_layout(), source_names=("embedding",), sources=((0,),) * 9))


def test_only_block_attention_residuals_restart_the_sum() -> None:
    assert restarts(block_layout())
    assert not restarts(prenorm_layout())
    assert not restarts(full_layout())
    assert not restarts(hires_layout())
    assert not restarts(replace(hires_layout(), additive=(True, False) * 4))
    assert not restarts(block_layout(8, 8)), "one block has no boundary"


def test_weights_that_do_not_sum_to_one_are_no_shares() -> None:
    """Sigmoid weights have no entropy and no uniform value to stand above; a dead query they can have."""
    sigmoid = replace(full_layout(), normalised=False)
    assert no_shares(full_layout()) == no_mixers(sigmoid) == ""
    assert "do not sum to 1" in no_shares(sigmoid)
    assert no_shares(prenorm_layout()) == no_mixers(prenorm_layout()) != ""
    entropy = quantity("depth_attention_entropy")
    assert any(reachable(entropy, full_layout()))
    assert not any(reachable(entropy, sigmoid))
