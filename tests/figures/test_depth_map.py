"""The depth map: columns are recorded steps, and one colour scale serves all runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from depthscope.figures import (
    Look,
    MapOptions,
    columns_for,
    depth_map_data,
    depth_map_plotly,
    figure,
    limits_of,
)
from depthscope.figures.map_marks import column_edges
from depthscope.store import open_run
from tests.figures.runs import STEPS, record, state


def test_every_recorded_step_is_a_column_while_they_fit(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    array = depth_map_data([run], MapOptions()).arrays[run.id]
    assert array.dims == ("layer", "column")
    assert array["step_start"].values.tolist() == array["step_end"].values.tolist() == list(STEPS)
    expected = np.stack([state(step, 8) for step in STEPS], axis=1)
    np.testing.assert_allclose(array.values, expected, rtol=1e-6)


def test_more_steps_than_columns_are_binned(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    array = depth_map_data([run], MapOptions(quantity="state_rms", columns=8)).arrays[run.id]
    assert array.sizes["column"] <= 8
    first = np.stack([state(step, 8) for step in STEPS[:4]], axis=1).mean(axis=1)
    np.testing.assert_allclose(array.values[:, 0], first, rtol=1e-6)
    assert (int(array["step_start"][0]), int(array["step_end"][0])) == (0, 30)


def test_all_maps_together_stay_within_the_columns_a_browser_takes() -> None:
    assert all(columns_for(runs) * runs <= 1500 for runs in range(1, 60))


def test_a_difference_leaves_the_baseline_out(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", scale=0.5))]
    data = depth_map_data(runs, MapOptions(mode="difference", baseline=runs[0].id))
    assert list(data.arrays) == [runs[1].id]
    np.testing.assert_allclose(data.arrays[runs[1].id].values, -1.0, atol=1e-6)


def test_depth_runs_downward_and_the_block_ends_are_labelled(tmp_path: Path) -> None:
    drawn = figure("depth-map", open_run(record(tmp_path / "a", layers=24, block=6)))
    assert list(drawn.layout.yaxis.range) == [24.5, 0.5]
    assert list(drawn.layout.yaxis.tickvals) == [1, 6, 12, 18, 24]
    assert [shape.y0 for shape in drawn.layout.shapes] == [6.5, 12.5, 18.5]


def test_colours_are_log10_between_the_common_limits(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", scale=10.0))]
    data = depth_map_data(runs, MapOptions())
    drawn = figure("depth-map", runs)
    limits = limits_of(data.arrays.values(), log=True)
    assert limits is not None
    np.testing.assert_allclose(drawn.layout.coloraxis.cmin, np.log10(limits.low))
    for trace, array in zip(
        (t for t in drawn.data if t.type == "heatmap"), data.arrays.values(), strict=True
    ):
        np.testing.assert_allclose(np.asarray(trace.z), np.log10(array.values), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(trace.customdata), array.values, rtol=1e-6)


def test_a_signed_quantity_gets_a_diverging_scale_with_zero_in_the_middle(tmp_path: Path) -> None:
    drawn = figure("depth-map", open_run(record(tmp_path / "a")), quantity="write_cosine")
    assert drawn.layout.coloraxis.cmin == -drawn.layout.coloraxis.cmax
    assert drawn.layout.coloraxis.colorscale[2][1] == "#F4F4F2"


def test_what_is_not_recorded_is_hatched_to_the_end_of_the_axis(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a", steps=range(0, 101, 10), unfresh=(4,)))
    data = depth_map_data([run], MapOptions(mode="fresh"))
    drawn = depth_map_plotly(data, look=Look(), end=300)
    (hatch,) = [trace for trace in drawn["data"] if trace["meta"]["role"] == "hatch"]
    assert hatch["x"][:2] == [105.0, 300.0], "steps after the last row"
    assert hatch["y"][6:8] == [3.5, 3.5], "the sublayer that the design cannot fill"
    assert drawn["layout"]["xaxis"]["range"] == [-5.0, 300.0]
    assert drawn["layout"]["meta"]["partial"] == [run.id]


def test_maps_of_different_depth_have_ticks_of_their_own(tmp_path: Path) -> None:
    shallow, deep = open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", layers=48))
    drawn = figure("depth-map", [shallow, deep])
    assert list(drawn.layout.yaxis2.range) == [48.5, 0.5]
    assert drawn.layout.yaxis2.showticklabels
    other = open_run(record(tmp_path / "c"))
    assert not figure("depth-map", [shallow, other]).layout.yaxis2.showticklabels


def test_a_run_that_ends_within_one_column_of_the_axis_is_complete(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    drawn = depth_map_plotly(depth_map_data([run], MapOptions()), look=Look(), end=309)
    assert drawn["layout"]["meta"]["partial"] == []
    assert drawn["layout"]["xaxis"]["range"] == [-5.0, 305.0]


def test_columns_of_binned_steps_touch_and_cover_all_of_them(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    array = depth_map_data([run], MapOptions(quantity="state_rms", columns=8)).arrays[run.id]
    edges = column_edges(array)
    assert edges.tolist() == [-5.0, 35.0, 75.0, 115.0, 155.0, 195.0, 235.0, 275.0, 305.0]
