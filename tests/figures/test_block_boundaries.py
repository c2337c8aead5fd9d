"""Block boundaries: folded profiles, sums, reset and read change against hand calculations, and the control."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import Labelled, figure
from depthscope.figures.block_boundaries import BoundaryOptions, block_boundaries_data, fold
from depthscope.store import ArraySpec, Run, RunWriter, StreamSpec, open_run
from tests.figures.runs import outline, record, state


@pytest.fixture
def block(tmp_path: Path) -> Run:
    """Four residual blocks of two sublayers, the state of sublayer l at step s (1 + l/8)(1 + s/100)."""
    return open_run(record(tmp_path / "block", block=2))


@pytest.fixture
def prenorm(tmp_path: Path) -> Run:
    """Eight sublayers on one stream: writes of rms 3, 4, 3, 4, ..., states 5, 5, ..., the embedding 1."""
    path = tmp_path / "prenorm"
    names = ("state_rms", "write_rms")
    arrays = [ArraySpec(name=name, dims=("layer",), shape=(8,)) for name in names]
    streams = [StreamSpec(name="fast", arrays=[*arrays, ArraySpec(name="embedding_rms")])]
    with RunWriter.create(
        path, name="prenorm", config={}, layout=outline(8), streams=streams, fsync=False
    ) as writer:
        for step in (0, 10):
            row = {"state_rms": np.full(8, 5.0), "write_rms": np.tile([3.0, 4.0], 4), "embedding_rms": 1.0}
            writer.append("fast", step, row)
    return open_run(path)


def shown(runs: list[Run], show: str, **more: object) -> Labelled:
    return block_boundaries_data(runs, BoundaryOptions(show=show, **more))  # type: ignore[arg-type]


def test_a_profile_is_folded_by_position_in_block(block: Run) -> None:
    array = shown([block], "folded", step=105).arrays[block.id]
    assert array.dims == ("block", "position")
    assert int(array["step"]) == 100
    np.testing.assert_allclose(array.values, state(100, 8).reshape(4, 2), rtol=1e-6)
    assert array["layer"].values.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_a_shorter_last_block_ends_in_nan() -> None:
    folded = fold(np.arange(1.0, 6), [1, 1, 2, 2, 3])
    np.testing.assert_array_equal(folded, [[1, 2], [3, 4], [5, np.nan]])


def test_sums_are_the_states_at_block_ends(block: Run) -> None:
    array = shown([block], "sums").arrays[block.id]
    assert array.dims == ("block", "column")
    np.testing.assert_allclose(array.values[:, 0], state(0, 8)[[1, 3, 5, 7]], rtol=1e-6)
    assert array["step_end"].values.tolist() == list(range(0, 301, 10))


def test_the_reset_ratio_is_held_against_what_uncorrelated_writes_give(block: Run) -> None:
    """Writes are half the states, so at n = 1: (1.25/1.5) over sqrt((1.125² + 1.25²)/(1.375² + 1.5²))."""
    array = shown([block], "reset").arrays[block.id]
    assert array["boundary"].values.tolist() == [1, 2, 3]
    reset, built = 1.25 / 1.5, np.sqrt((1.125**2 + 1.25**2) / (1.375**2 + 1.5**2))
    np.testing.assert_allclose(array["reset_ratio"].values[0], reset, rtol=1e-6)
    np.testing.assert_allclose(array["construction_ratio"].values[0], built, rtol=1e-6)
    np.testing.assert_allclose(array.values[0], reset / built, rtol=1e-6)
    assert array.attrs["units"] == "1"


def test_the_control_sums_its_writes_over_the_blocks_of_the_other_run(block: Run, prenorm: Run) -> None:
    """3 and 4 uncorrelated give 5; states 5 before and after bound the true sum by 0 and by 3 + 4."""
    folded = shown([block, prenorm], "folded").arrays[prenorm.id]
    np.testing.assert_allclose(folded.values, [[3, 5]] * 4, rtol=1e-6)
    assert folded.attrs["control"]
    sums = shown([block, prenorm], "sums").arrays[prenorm.id]
    np.testing.assert_allclose(sums.values, 5, rtol=1e-6)
    np.testing.assert_allclose(sums["at_least"].values[:, 0], [4, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(sums["at_most"].values[:, 0], [6, 7, 7, 7], rtol=1e-6)


def test_runs_that_have_no_place_in_it_say_why(block: Run, prenorm: Run, tmp_path: Path) -> None:
    deep = open_run(record(tmp_path / "deep", layers=12))
    assert "no run with blocks has its depth" in shown([block, deep], "folded").absent[deep.id]
    assert shown([block, prenorm], "reset").absent[prenorm.id] == "no residual blocks"
    alone = shown([prenorm], "folded")
    assert alone.arrays == {}
    assert "no residual blocks" in alone.absent[prenorm.id]
    assert "read" in shown([block], "read").absent[block.id]  # its reads were not recorded


def test_up_to_twelve_blocks_are_lines_and_more_are_a_map(tmp_path: Path) -> None:
    few = open_run(record(tmp_path / "few", layers=24, block=2, steps=(0, 10)))
    many = open_run(record(tmp_path / "many", layers=26, block=2, steps=(0, 10)))
    lines = figure("block-boundaries", few)
    assert [trace.type for trace in lines.data] == ["scatter"] * 12
    (cells,) = figure("block-boundaries", many, log=False).data
    assert cells.type == "heatmap"
    np.testing.assert_allclose(np.asarray(cells.z), state(10, 26).reshape(13, 2), rtol=1e-6)
    assert [trace.type for trace in figure("block-boundaries", [few, many]).data] == ["heatmap"] * 2


def test_of_many_lines_over_steps_a_run_keeps_blocks_evenly_spaced_in_depth_and_says_which(
    tmp_path: Path,
) -> None:
    deep = open_run(record(tmp_path / "deep", layers=64, block=2, steps=(0, 10)))
    flat = open_run(record(tmp_path / "flat", block=4, steps=(0, 10)))
    drawn = figure("block-boundaries", [deep, flat], show="sums")
    kept = [trace.meta["row"] for trace in drawn.data if trace.meta["run"] == deep.id]
    assert kept == [1, 5, 10, 14, 19, 23, 28, 32]
    assert [trace.meta["row"] for trace in drawn.data if trace.meta["run"] == flat.id] == [1, 2]
    assert drawn.layout.meta["left_out"] == "deep: 8 of 32 blocks"
    assert figure("block-boundaries", [flat], show="sums").layout.meta["left_out"] == ""


def test_of_fifteen_boundaries_six_evenly_spaced_ones_are_lines_with_their_numbers(tmp_path: Path) -> None:
    deep = open_run(record(tmp_path / "deep", layers=32, block=2, steps=(0, 10)))
    drawn = figure("block-boundaries", deep, show="reset")
    rows = [trace.meta["row"] for trace in drawn.data if trace.meta["role"].startswith("boundary-")]
    assert rows == [1, 4, 7, 9, 12, 15]
    assert sorted(int(label["text"]) for label in drawn.layout.meta["labels"]) == rows
    assert drawn.layout.meta["left_out"] == "deep: 6 of 15 boundaries"


def test_no_line_is_faint_the_later_block_is_the_thicker(block: Run) -> None:
    drawn = figure("block-boundaries", block)
    assert {trace.line.color for trace in drawn.data} == {"#0072B2"}
    widths = [trace.line.width for trace in drawn.data]
    assert widths == sorted(widths)
    assert widths[0] == 1.0
    assert widths[-1] > 2


def test_blocks_that_start_from_a_read_have_no_reset_ratio_and_say_why(tmp_path: Path) -> None:
    layout = replace(outline(8, 2), design="hires:n=2", outer_blocks=4, outer_width=16)
    arrays = [ArraySpec(name=name, dims=("layer",), shape=(8,)) for name in ("state_rms", "write_rms")]
    with RunWriter.create(
        tmp_path / "hires",
        name="hires",
        config={},
        layout=layout,
        streams=[StreamSpec(name="fast", arrays=arrays)],
        fsync=False,
    ) as writer:
        writer.append("fast", 0, {"state_rms": np.ones(8), "write_rms": np.ones(8)})
    run = open_run(tmp_path / "hires")
    assert shown([run], "reset").absent[run.id] == "its blocks start from a read, not from zero"
