"""Values beyond an axis: each stretch has a mark at the edge, all are counted, on the page and on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import draw_paper, figure, paper_panels
from depthscope.figures.beyond import Stretch, beyond_words, stretches
from depthscope.figures.paper import type_settings
from depthscope.figures.value_axis import NO_LOGARITHM, ValueAxis
from depthscope.store import Run, open_run
from tests.figures.runs import STEPS, record

AXIS = ValueAxis(low=0.0, high=10.0, log=False)


def test_each_stretch_beyond_an_end_is_found_at_its_farthest_value() -> None:
    found = stretches([11, 15, 12, 5, 20, -1, np.nan, np.inf], AXIS)
    assert found == [
        Stretch(edge="above", place=1, count=3),
        Stretch(edge="above", place=4, count=1),
        Stretch(edge="below", place=5, count=1),
    ]
    assert beyond_words(found, AXIS) == "4 points above 10, 1 point below 0"


def test_on_a_log_axis_the_ends_are_decades_and_zero_is_no_value_below() -> None:
    axis = ValueAxis(low=-1.0, high=1.0, log=True)
    assert stretches([0.0, 0.05, 1.0, 10.0], axis) == [Stretch(edge="below", place=1, count=1)]


def test_a_line_within_its_axis_has_no_mark() -> None:
    assert stretches([0.0, 10.0], AXIS) == []
    assert beyond_words([], AXIS) == ""


def marks(name: str, run: Run, **options: object) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the steps of the marks at the edges, by edge, as the page and as the paper figure draw them."""
    drawn = figure(name, run, **options)
    page = {
        trace.meta["kind"]: np.asarray(trace.x).tolist()
        for trace in drawn.data
        if trace.meta["role"] == "mark"
    }
    with type_settings():
        paper_name = "depth-profile" if name == "loss" else name
        axes = draw_paper(
            paper_name, paper_panels(paper_name, [run], **options), width=3.25, order=[run.id]
        ).axes
    paper: dict[str, list[float]] = {}
    for line in axes[0].get_lines():
        if str(line.get_gid()).startswith("mark "):
            paper.setdefault(str(line.get_gid()).removeprefix("mark "), []).extend(
                np.asarray(line.get_xdata()).tolist()
            )
    return page, paper


def test_the_loss_marks_the_start_that_its_axis_leaves_out(tmp_path: Path) -> None:
    """31 records: the axis is that of the last 28, which only the first three exceed."""
    run = open_run(record(tmp_path / "a"))
    page, paper = marks("loss", run)
    assert page == paper == {"above": [0.0]}
    assert figure("loss", run).layout.meta["beyond"].startswith("3 points above ")


def test_a_spike_of_the_state_at_block_ends_is_marked_where_it_leaves_the_axis(tmp_path: Path) -> None:
    flat = {step: {"state_rms": np.full(8, 1e9 if step == 10 else 1.0)} for step in STEPS}
    run = open_run(record(tmp_path / "a", block=4, changes=flat))
    page, paper = marks("block-boundaries", run, show="sums")
    assert page == {"above": [10.0]}
    assert paper == {"above": [10.0, 10.0]}, "one a block"
    assert figure("block-boundaries", run, show="sums").layout.meta["beyond"].startswith("2 points above ")


def test_an_early_rise_that_fits_stays_on_the_axis(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a", block=4))
    assert marks("block-boundaries", run, show="sums") == ({}, {})


def test_where_all_values_are_zero_the_axis_is_linear_and_says_so(tmp_path: Path) -> None:
    zero = {step: {"nonfinite": np.zeros(8)} for step in STEPS}
    run = open_run(record(tmp_path / "a", arrays=("nonfinite",), changes=zero))
    drawn = figure("depth-profile", run, quantity="nonfinite")
    assert drawn.layout.yaxis.type == "linear"
    assert drawn.layout.meta["note"] == NO_LOGARITHM
    assert drawn.layout.meta["unusual"] == ""
    np.testing.assert_array_equal(np.asarray(drawn.data[0].y), np.zeros(8))
    colours = figure("depth-map", run, quantity="nonfinite")
    assert (colours.layout.coloraxis.cmin, colours.layout.coloraxis.cmax) == (0, 1)
    assert colours.layout.meta["unusual"] == ""


def test_a_step_of_zeros_keeps_the_log_axis_of_the_other_steps(tmp_path: Path) -> None:
    rows = {step: {"nonfinite": np.full(8, 5.0 if step else 0.0)} for step in STEPS}
    run = open_run(record(tmp_path / "a", arrays=("nonfinite",), changes=rows))
    drawn = figure("depth-profile", run, quantity="nonfinite", step=0)
    assert drawn.layout.yaxis.type == "log"
    assert drawn.layout.meta["unusual"] == "8 zero or less"


@pytest.mark.parametrize("first", [0.0, np.nan])
@pytest.mark.parametrize("name", ["depth-profile", "depth-map"])
def test_a_ratio_to_nothing_says_why_and_what_to_choose(name: str, first: float, tmp_path: Path) -> None:
    rows = {step: {"mixer_grad_norm": np.array([first, *range(1, 8)])} for step in STEPS}
    run = open_run(record(tmp_path / "a", arrays=("mixer_grad_norm",), changes=rows))
    with pytest.raises(ValueError, match=r"first sublayer's .* is zero or missing.* choose Absolute"):
        figure(name, run, quantity="mixer_grad_norm", mode="ratio")
