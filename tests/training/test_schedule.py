"""Warm up, stay, decay: values by hand."""

from __future__ import annotations

import pytest

from depthscope.training import WarmupStableDecay


def test_the_factor_rises_stays_and_falls():
    schedule = WarmupStableDecay(warmup=4, decay_start=6, total=10, final=0.2)
    factors = [schedule.factor(step) for step in range(12)]
    assert factors == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


@pytest.mark.parametrize(
    ("steps", "warmup", "decay_start"), [(300, 30, 240), (1000, 100, 800), (10, 1, 8), (1, 1, 1)]
)
def test_a_tenth_warms_up_and_a_fifth_decays(steps, warmup, decay_start):
    schedule = WarmupStableDecay.over(steps)
    assert (schedule.warmup, schedule.decay_start, schedule.total) == (warmup, decay_start, steps)
    assert max(schedule.factor(step) for step in range(steps)) == 1


def test_phases_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match="warmup=5, decay_start=3, total=10"):
        WarmupStableDecay(warmup=5, decay_start=3, total=10)
