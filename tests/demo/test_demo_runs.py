"""What the runs of the demo hold: exactly what their designs can have, and the identities of the definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.quantities import QUANTITIES, reachable
from depthscope.store import Run, open_run

DESIGNS = ("prenorm", "full-attnres", "block-attnres", "hires")
STEPS = 60


@pytest.fixture(params=DESIGNS)
def run(request: pytest.FixtureRequest, demo_runs: Path) -> Run:
    return open_run(demo_runs / request.param)


@pytest.fixture
def runs(demo_runs: Path) -> dict[str, Run]:
    return {design: open_run(demo_runs / design) for design in DESIGNS}


def spearman(values: np.ndarray) -> float:
    """Rank correlation of values with their position."""
    ranks = np.argsort(np.argsort(values))
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


def equal_layers(run: Run) -> np.ndarray:
    """True where state_rms equals write_rms at every step (1e-6)."""
    return np.isclose(run["state_rms"].values, run["write_rms"].values, rtol=1e-6).all(axis=0)


def test_every_step_has_its_row(run: Run) -> None:
    assert run.status == "finished"
    assert run["loss"].step.values.tolist() == list(range(STEPS))
    assert len(run["loss"]) == STEPS


def test_exactly_the_entries_that_a_design_can_reach_are_finite(run: Run) -> None:
    seen = 0
    for name, quantity in QUANTITIES.items():
        if quantity.reach == "given":
            continue
        mask = np.array(reachable(quantity, run.layout), dtype=bool)
        if not mask.any():
            assert name not in run.quantities
            assert run.missing[name]
            continue
        values = run[name].values
        finite = np.isfinite(values)
        if (
            name == "mixing_coefficient"
        ):  # only where a contribution is parallel to its origin, which is measured
            assert run.layout.outer_blocks or finite[:, 0, 0].all(), "the first read is the embedding"
            assert not np.any(finite & ~mask)
            continue
        np.testing.assert_array_equal(finite, np.broadcast_to(mask, finite.shape), err_msg=name)
        seen += 1
    assert seen > 25


def test_depth_attention_starts_uniform(runs: dict[str, Run]) -> None:
    for design in ("full-attnres", "block-attnres"):
        first = runs[design]["depth_attention"].values[0]
        for row in first:
            known = row[np.isfinite(row)]
            np.testing.assert_allclose(known, 1 / len(known), atol=1e-3)


def test_rows_of_weights_and_contributions_sum_to_one(runs: dict[str, Run]) -> None:
    for design in ("full-attnres", "block-attnres"):
        for name in ("depth_attention", "depth_contribution"):
            sums = np.nansum(runs[design][name].values.astype(float), axis=2)
            np.testing.assert_allclose(sums, 1, atol=2e-3)


def test_prenorm_states_grow_over_depth(runs: dict[str, Run]) -> None:
    assert spearman(runs["prenorm"]["state_rms"].values[-1]) >= 0.95


def test_sums_restart_at_the_first_sublayer_of_every_residual_block_and_only_there(
    runs: dict[str, Run],
) -> None:
    block = runs["block-attnres"]
    first = np.diff(block.layout.residual_block, prepend=0) > 0
    np.testing.assert_array_equal(equal_layers(block), first)
    assert first.sum() == 3  # blocks of 6, 6 and 4 sublayers
    assert not equal_layers(runs["prenorm"]).any()
    assert equal_layers(runs["full-attnres"]).all()


def test_the_state_of_an_additive_stream_is_read_plus_write(runs: dict[str, Run]) -> None:
    """mean ||s||^2 = mean ||h||^2 + 2 d <h, f>/d + mean ||f||^2, per feature."""
    for design in ("prenorm", "hires"):
        run = runs[design]
        parts = {name: run[name].values.astype(float) for name in ("read_rms", "write_rms", "write_dot")}
        expected = np.sqrt(parts["read_rms"] ** 2 + 2 * parts["write_dot"] + parts["write_rms"] ** 2)
        np.testing.assert_allclose(run["state_rms"].values, expected, rtol=1e-5)


def test_the_typical_token_is_never_larger_than_the_rms(run: Run) -> None:
    for tensor in ("write", "state", "read"):
        assert (run[f"{tensor}_logrms"].values <= np.log(run[f"{tensor}_rms"].values) + 1e-6).all()
    assert (run["state_rms"].values <= run["abs_max"].values).all()


def test_outer_energy_is_taken_before_the_norm(runs: dict[str, Run]) -> None:
    run = runs["hires"]
    energy, carry = run["outer_energy"].values, run["outer_carry_energy"].values
    # After the norm the energy is the mean squared gain; before it, it differs from that in every block.
    assert (np.abs(energy[-1] - carry[-1]) > 1e-3).all()
    write = run["outer_write_energy"].values
    ratio, cosine = run["outer_write_ratio"].values, run["outer_write_cosine"].values
    assert (energy <= (np.sqrt(carry) + np.sqrt(write)) ** 2 + 1e-6).all()
    assert (ratio > 0).all()
    assert (np.abs(cosine) <= 1).all()
    channels = run["outer_channel_energy"].values.mean(axis=2)
    np.testing.assert_allclose(channels, energy, rtol=1e-5)
    np.testing.assert_allclose(run["interface_gate"].values[0], 0.1, rtol=1e-5)
    at_start = run["outer_carry_energy"].values[0, 1:]
    np.testing.assert_allclose(at_start, 1, rtol=1e-4)


def test_gradient_groups_add_up(run: Run) -> None:
    names = [name for name in run.quantities if name.endswith("_grad_norm") and name != "grad_norm"]
    squares = [np.square(run[name].values).reshape(STEPS, -1) for name in names]
    total = np.sqrt(np.nansum(np.concatenate(squares, axis=1), axis=1))
    np.testing.assert_allclose(total, run["grad_norm"].values, rtol=1e-5)


def test_losses_fall(run: Run) -> None:
    loss = run["loss"].values
    assert loss[-5:].mean() < loss[:3].mean() - 1
    assert run["validation"].values[-1] < run["validation"].values[0]
