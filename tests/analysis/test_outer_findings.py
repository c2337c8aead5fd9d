"""Findings about a wide outer state: each sentence with its criterion, its step and numbers chosen by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from depthscope.analysis import Finding, findings, undecided
from depthscope.analysis.outer_energy import outer_energy
from depthscope.analysis.outer_gates import moved_gates
from depthscope.analysis.outer_write import write_over_carry
from depthscope.quantities import DepthLayout
from tests.analysis.synthetic_runs import WriteRun, prenorm_layout

STEPS = (0, 10, 20)


def wide_layout(blocks: int = 4) -> DepthLayout:
    plain = prenorm_layout(2 * blocks)
    return replace(
        plain,
        design="hires:n=2",
        residual_block=tuple(layer // 2 + 1 for layer in range(2 * blocks)),
        outer_blocks=blocks,
        outer_width=32,
    )


def outer_values() -> dict[str, np.ndarray]:
    """Three records: energies that only the last one says, gates that move on the reading side."""
    last = {
        "outer_energy": [9.0, 4.0, 5.0, 6.0],
        "outer_carry_energy": [0.5, 1.0, 1.0, 1.0],
        "outer_write_energy": [4.0, 0.5, 2.0, 3.0],
        "outer_extra_share": [0.002, 0.003, 0.004, 0.001],
    }
    values = {name: np.stack([np.full(4, 50.0), np.full(4, 50.0), row]) for name, row in last.items()}
    gates = np.full((3, 4, 2), 0.1)
    gates[2, :, 0] = [0.08, 0.085, 0.09, 0.095]
    return {**values, "interface_gate": gates}


@pytest.fixture
def outer(write_run: WriteRun) -> dict[str, Finding]:
    run = write_run("hires", wide_layout(), outer_values(), steps=STEPS)
    return {finding.kind: finding for finding in findings(run) if finding.page == "outer"}


def test_energy_is_judged_from_block_2_on_at_the_step_of_its_evidence(outer: dict[str, Finding]) -> None:
    found = outer["outer_energy"]
    assert found.sentence == (
        "hires: outer energy before the norm stays within 4.0–6.0 from block 2 on at step 20, at most twofold."
    )
    assert (found.page, found.quantity, found.step) == ("outer", "outer_energy", 20)


def test_energy_that_more_than_doubles_says_from_where_to_where(write_run: WriteRun) -> None:
    values = outer_values()
    values["outer_energy"][2] = [1.0, 2.0, 4.0, 8.0]
    (found,) = [
        finding
        for finding in findings(write_run("hires", wide_layout(), values, steps=STEPS))
        if finding.kind == "outer_energy"
    ]
    assert found.text == (
        "outer energy before the norm goes from 2.0 in block 2 to 8.0 in block 4 at step 20, within 2.0–8.0, more "
        "than twofold."
    )
    assert found.values["slope"] == pytest.approx(np.log(2))


def test_two_blocks_have_no_growth_to_speak_of() -> None:
    assert outer_energy(np.array([1.0, 2.0])) is None
    assert outer_energy(np.array([1.0, 2.0, np.nan])) is None


def test_the_outer_write_is_set_against_the_carry_block_by_block(outer: dict[str, Finding]) -> None:
    found = outer["outer_write"]
    assert found.text == (
        "the outer write has more energy than the carry (ratio above 1) in 3 of 4 blocks at step 20: 0.50–8.0×."
    )
    assert found.values["ratios"] == pytest.approx((8.0, 0.5, 2.0, 3.0))
    assert (found.quantity, found.step) == ("outer_write_energy", 20)
    assert np.isnan(write_over_carry(np.array([1.0]), np.array([0.0]))).all()


def test_gates_that_moved_are_counted_between_two_steps(outer: dict[str, Finding]) -> None:
    found = outer["outer_gates"]
    assert found.text == (
        "3 of 8 gates moved by 0.01 or more between steps 0 and 20: reading 0.10 to 0.080–0.095, writing stays "
        "near 0.10."
    )
    assert (found.quantity, found.step, found.values["first_step"]) == ("interface_gate", 20, 0)


def test_a_gate_moves_either_way_and_only_from_a_hundredth_on() -> None:
    began = np.full((2, 2), 0.1)
    assert moved_gates(began, np.array([[0.0901, 0.1099], [0.1, 0.1]])) == 0
    assert moved_gates(began, np.array([[0.0899, 0.1101], [0.1, 0.1]])) == 2


def test_extra_dimensions_are_spoken_of_only_while_the_gates_are_small(
    write_run: WriteRun, outer: dict[str, Finding]
) -> None:
    assert outer["outer_extra"].text == (
        "0.10–0.40 % of the outer energy before the norm lies in the extra dimensions at step 20, every gate below "
        "0.5."
    )
    values = outer_values()
    values["interface_gate"][2, 1, 1] = 0.6
    kinds = [finding.kind for finding in findings(write_run("open", wide_layout(), values, steps=STEPS))]
    assert "outer_extra" not in kinds
    assert "outer_gates" in kinds


def test_one_record_of_the_gates_has_no_move(write_run: WriteRun) -> None:
    values = {name: rows[:1] for name, rows in outer_values().items()}
    kinds = [finding.kind for finding in findings(write_run("young", wide_layout(), values))]
    assert "outer_gates" not in kinds
    assert "outer_energy" in kinds


def test_a_design_without_a_wide_state_is_not_asked(write_run: WriteRun) -> None:
    run = write_run("plain", prenorm_layout(), {"state_rms": np.ones((3, 8))})
    reasons = undecided(run)
    for kind in ("outer_energy", "outer_write", "outer_gates", "outer_extra"):
        assert reasons[kind] == "the design has no wide outer state"
