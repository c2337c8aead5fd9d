"""Depth attention, its series and its distant sources: what is drawn is what was recorded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from depthscope.figures import (
    CellSeriesOptions,
    DepthAttentionOptions,
    Look,
    attention_limits,
    attention_marks,
    cell_series_data,
    cell_series_plotly,
    depth_attention_data,
    depth_attention_plotly,
    distant_sources,
)
from depthscope.figures.attention_marks import block_gaps, boxes_of, hatched
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.analysis.sweeps import write_sweep
from tests.figures.mixing_runs import contribution, mixing_outline, record_mixing, weight
from tests.figures.runs import record


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("mixing")
    record_mixing(folder / "full")
    record_mixing(folder / "blocks", block=4)
    record(folder / "plain")
    return {name: open_run(folder / name) for name in ("full", "blocks", "plain")}


def test_rows_hold_the_recorded_weights_and_nothing_where_a_target_cannot_read(runs: dict[str, Run]) -> None:
    data = depth_attention_data([runs["full"]], DepthAttentionOptions(step=104))
    array = data.arrays[runs["full"].id]
    assert int(array["step"]) == 100
    for target in range(9):
        row = array.sel(part="weight").values[target]
        np.testing.assert_allclose(row[: target + 1], weight(100, target + 1), rtol=1e-6)
        assert np.isnan(row[target + 1 :]).all()
        held = array.sel(part="contribution").values[target, : target + 1]
        np.testing.assert_allclose(held, contribution(100, target + 1), atol=1e-6)
    np.testing.assert_array_equal(array["reachable"].values, np.tril(np.ones((9, 9), bool)))
    assert array["target_kind"].values.tolist() == ["attention", "mlp"] * 4 + ["output"]


def test_a_run_without_depth_attention_is_named_with_the_reason(runs: dict[str, Run]) -> None:
    data = depth_attention_data(list(runs.values()), DepthAttentionOptions())
    assert list(data.arrays) == [runs["full"].id, runs["blocks"].id]
    assert data.absent == {runs["plain"].id: "depth attention was not recorded"}


def test_blocks_begin_rows_and_their_partial_sums_have_a_column(runs: dict[str, Run]) -> None:
    array = depth_attention_data([runs["blocks"]], DepthAttentionOptions()).arrays[runs["blocks"].id]
    assert array.attrs["source_axis"] == "block"
    assert array["target"].values[array["starts_block"].values].tolist() == [5, 9]
    assert array["partial"].values.tolist() == [-1, 1, 1, 1, -1, 2, 2, 2, -1]


def test_views_subtract_uniform_hide_what_is_local_and_show_the_spread(runs: dict[str, Run]) -> None:
    run = runs["full"]

    def shown(view: str) -> npt.NDArray[np.float64]:
        options = DepthAttentionOptions(step=100, view=view)  # type: ignore[arg-type]
        return np.asarray(depth_attention_data([run], options).arrays[run.id].sel(part="weight").values)

    np.testing.assert_allclose(shown("uniform")[3, :4], weight(100, 4) - 0.25, atol=1e-6)
    np.testing.assert_allclose(shown("spread")[3, :4], weight(100, 4) / 10, rtol=1e-6)
    local = shown("local")
    assert np.isnan(local[:, 0]).all()
    assert np.isnan(np.diag(local)).all()
    np.testing.assert_allclose(local[3, 1:3], weight(100, 4)[1:3], rtol=1e-6)


def test_a_difference_goes_to_a_step_or_to_a_run_with_the_same_sources(runs: dict[str, Run]) -> None:
    full, blocks = runs["full"], runs["blocks"]
    to_step = DepthAttentionOptions(step=200, view="difference", reference_step=0)
    array = depth_attention_data([full], to_step).arrays[full.id]
    np.testing.assert_allclose(array.sel(part="weight").values[3, :4], weight(200, 4) - 0.25, atol=1e-6)
    to_run = DepthAttentionOptions(step=200, view="difference", baseline=full.id)
    data = depth_attention_data([full, blocks], to_run)
    assert not np.nan_to_num(data.arrays[full.id].values).any()
    assert "reads other sources than the baseline full" in data.absent[blocks.id]


def test_reads_in_front_of_one_kind_alone_keep_their_rows(runs: dict[str, Run]) -> None:
    array = depth_attention_data([runs["full"]], DepthAttentionOptions(targets="mlp")).arrays[runs["full"].id]
    assert array["target"].values.tolist() == [2, 4, 6, 8]
    mass = array["mass"].sel(part="weight").values
    assert mass[0] == pytest.approx(np.mean([weight(300, n)[0] for n in (2, 4, 6, 8)]))
    assert mass[3] == pytest.approx(sum(weight(300, n)[3] for n in (4, 6, 8)) / 4)


def test_colours_leave_out_targets_with_one_source_and_share_round_ends(runs: dict[str, Run]) -> None:
    array = depth_attention_data([runs["full"]], DepthAttentionOptions(step=0)).arrays[runs["full"].id]
    limits = attention_limits([array], "weight", signed=False)
    assert limits is not None
    assert (limits.low, limits.high) == (0, 0.5), "1/2 is the largest weight of a target with two sources"


def test_both_maps_and_their_bars_are_drawn_from_the_same_numbers(runs: dict[str, Run]) -> None:
    data = depth_attention_data([runs["blocks"]], DepthAttentionOptions())
    array = data.arrays[runs["blocks"].id]
    drawn = untyped(depth_attention_plotly(data, look=Look(host="page"))["data"])
    by_role = {trace["meta"]["role"]: trace for trace in drawn}
    for part in ("weight", "contribution"):
        np.testing.assert_allclose(by_role[part]["z"], array.sel(part=part).values, rtol=1e-6)
        np.testing.assert_allclose(by_role[f"mass-{part}"]["y"], array["mass"].sel(part=part).values)
    np.testing.assert_allclose(by_role["entropy"]["x"], array["entropy"].values)


@given(arrays(np.bool_, st.tuples(st.integers(1, 6), st.integers(1, 6))))
def test_hatching_covers_exactly_the_unreachable_cells(mask: npt.NDArray[np.bool_]) -> None:
    covered = np.zeros(mask.shape, int)
    for top, bottom, left, right in boxes_of(mask):
        covered[top:bottom, left:right] += 1
    np.testing.assert_array_equal(covered, mask.astype(int))


def test_the_hatching_lies_on_the_edges_of_the_cells() -> None:
    mask = np.array([[False, True, True], [False, False, True]])
    (trace,) = hatched(mask, ("x", "y"), "run", Look())
    corners = set(zip(trace["x"], trace["y"], strict=True)) - {(None, None)}
    assert corners == {
        *((x, y) for x in (0.5, 2.5) for y in (-0.5, 0.5)),
        *((x, y) for x in (1.5, 2.5) for y in (0.5, 1.5)),
    }


def test_a_cell_over_steps_with_its_spread(runs: dict[str, Run]) -> None:
    run = runs["full"]
    data = cell_series_data([run], CellSeriesOptions(target=4, source=0))
    array = data.arrays[run.id]
    expected = [weight(step, 4)[0] for step in array["step"].values]
    np.testing.assert_allclose(array.sel(part="weight").values, expected, rtol=1e-6)
    np.testing.assert_allclose(array.sel(part="spread").values, np.array(expected) / 10, rtol=1e-6)
    drawn = cell_series_plotly(data, look=Look(host="page"))
    assert [trace["meta"]["role"] for trace in drawn["data"]] == ["band", "line"]
    assert drawn["layout"]["shapes"][0]["y0"] == 0.25
    unreachable = cell_series_data([run], CellSeriesOptions(target=4, source=7))
    assert unreachable.absent == {run.id: "that target cannot read that source"}


def test_distant_sources_are_ordered_by_weight_and_never_the_newest(runs: dict[str, Run]) -> None:
    run = runs["full"]
    array = depth_attention_data([run], DepthAttentionOptions(step=300)).arrays[run.id]
    found = distant_sources(array, run.layout.sources, most=3)
    assert [(entry.target, entry.source, entry.distance) for entry in found] == [
        (4, 0, 4),
        (5, 0, 5),
        (6, 0, 6),
    ]
    assert found[0].weight == pytest.approx(4 / 7)
    assert found[0].times_uniform == pytest.approx(16 / 7)
    assert found[0].contribution == pytest.approx(4 / 7 - 0.2)


def test_the_newest_source_is_never_distant_however_large_its_weight(runs: dict[str, Run]) -> None:
    run = runs["full"]
    array = depth_attention_data([run], DepthAttentionOptions(step=0)).arrays[run.id]
    found = distant_sources(array, run.layout.sources, most=100)
    assert {entry.distance for entry in found} == set(range(2, 10)), "at step 0 all weights are equal"
    assert {entry.target for entry in found} == set(range(4, 10)), "of targets with four sources or more"


def test_an_unrecorded_contribution_is_said(tmp_path: Path) -> None:
    run = open_run(record_mixing(tmp_path / "bare", arrays=("depth_attention",)))
    array = depth_attention_data([run], DepthAttentionOptions()).arrays[run.id]
    assert array.attrs["contribution_absent"] == "contribution was not recorded"
    assert np.isnan(array.sel(part="contribution").values).all()
    data = depth_attention_data([run], DepthAttentionOptions(view="spread"))
    assert data.absent == {run.id: "spread over tokens was not recorded"}


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """128 sublayers: a source each, blocks of 8, and blocks of 2; and 34, whose last block begins near the end."""
    folder = tmp_path_factory.mktemp("deep")
    for name, block in (("full", 0), ("sixteen", 8), ("many", 2)):
        record_mixing(folder / name, layers=128, block=block, steps=(0, 300))
    record_mixing(folder / "seventeen", layers=34, block=2, steps=(0, 300))
    return {path.name: open_run(path) for path in folder.iterdir()}


def drawn_alone(run: Run) -> dict[str, Any]:
    return depth_attention_plotly(
        depth_attention_data([run], DepthAttentionOptions()), look=Look(host="page")
    )


@pytest.mark.parametrize("name", ["full", "sixteen", "many", "seventeen"])
def test_ticks_of_deep_sublayers_do_not_touch_in_the_smallest_window(deep: dict[str, Run], name: str) -> None:
    """There a map is at least 180 px wide and 270 px high; digits are 7 px wide, `emb` 26 px, a line 14 px high."""
    layout = drawn_alone(deep[name])["layout"]
    columns = deep[name].layout.source_names
    widths = [26 if text == "emb" else 7 * len(text) for text in layout["xaxis"]["ticktext"]]
    places = [180 * (tick + 0.5) / len(columns) for tick in layout["xaxis"]["tickvals"]]
    for (left, first), (right, second) in pairwise(zip(places, widths, strict=True)):
        assert right - left - (first + second) / 2 >= 4
    rows = [270 * tick / len(deep[name].layout.sources) for tick in layout["yaxis"]["tickvals"]]
    assert all(lower - upper >= 18 for upper, lower in pairwise(rows))
    assert 4 <= len(rows) <= 10
    assert layout["yaxis"]["ticktext"][0] == "1"
    assert layout["yaxis"]["ticktext"][-1] == "output"


def test_gaps_between_blocks_grow_thin_and_then_go_as_blocks_become_many(
    deep: dict[str, Run], runs: dict[str, Run]
) -> None:
    def gaps(run: Run) -> list[tuple[int, float]]:
        array = depth_attention_data([run], DepthAttentionOptions()).arrays[run.id]
        return block_gaps(array, 270 / array.sizes["target"], 2.0)

    assert gaps(runs["blocks"]) == [(4, 2.0), (8, 2.0)]
    sixteen = gaps(deep["sixteen"])
    assert [row for row, _ in sixteen] == list(range(8, 129, 8))
    assert {width for _, width in sixteen[:-1]} == {1.0}, "blocks of 17 px"
    assert [row for row, _ in gaps(deep["many"])] == [128], (
        "blocks of 4 px: the final read alone stands apart"
    )
    assert gaps(deep["full"])[0][1] < 270 / 129, "thinner than a row"


def test_partial_blocks_of_low_rows_are_marked_by_a_line_along_them(deep: dict[str, Run]) -> None:
    marks = [trace for trace in drawn_alone(deep["sixteen"])["data"] if trace["meta"]["role"] == "partial"]
    assert [trace["xaxis"] for trace in marks] == ["x", "x", "x3"], (
        "in both maps, with an edge over the weights"
    )
    # The second to the eighth sublayer of a block read its partial sum: rows 1 to 7 in the column of block 1.
    assert marks[0]["x"][:2] == [1, 1]
    assert marks[0]["y"][:2] == pytest.approx([0.7, 7.3])
    assert marks[0]["x"].count(None) == 15


def test_a_key_names_the_marks_that_are_drawn_and_no_others(
    deep: dict[str, Run], runs: dict[str, Run]
) -> None:
    def marks(run: Run, **options: Any) -> set[str]:
        return attention_marks(depth_attention_data([run], DepthAttentionOptions(**options)).arrays[run.id])

    assert marks(runs["blocks"]) == {"attention", "mlp", "partial", "unreachable"}
    assert marks(runs["full"]) == {"attention", "mlp", "unreachable"}
    assert marks(deep["sixteen"]) == {"partial-line", "unreachable"}
    assert marks(deep["many"]) == {"unreachable"}, "one row a partial block leaves no room for a mark"
    assert marks(runs["blocks"], targets="mlp") == {"mlp", "partial", "unreachable"}
    for run in (*runs.values(), *deep.values()):
        if run.name != "plain":
            drawn = {trace["meta"]["role"] for trace in drawn_alone(run)["data"]}
            assert ("partial" in drawn) == bool(marks(run) & {"partial", "partial-line"})
            assert ("kind" in drawn) == bool(marks(run) & {"attention", "mlp"})


def test_small_weights_of_a_deep_run_do_not_clip_a_shallow_one(
    deep: dict[str, Run], runs: dict[str, Run]
) -> None:
    def high(*chosen: Run) -> float:
        data = depth_attention_data(chosen, DepthAttentionOptions(step=300))
        limits = attention_limits(list(data.arrays.values()), "weight", signed=False)
        assert limits is not None
        return limits.high

    assert high(deep["full"]) < high(runs["full"]) == high(runs["full"], deep["full"])


@pytest.mark.parametrize("pair", [("full", "sixteen"), ("seventeen", "seventeen")])
def test_each_run_of_a_figure_has_its_targets_beside_its_own_maps(
    deep: dict[str, Run], runs: dict[str, Run], pair: tuple[str, str]
) -> None:
    chosen = [deep[pair[0]], deep[pair[1]] if pair[0] != pair[1] else runs["blocks"]]
    drawn = depth_attention_plotly(depth_attention_data(chosen, DepthAttentionOptions()), look=Look())
    used = {trace[axis] for trace in drawn["data"] for axis in ("xaxis", "yaxis")}
    for name, axis in drawn["layout"].items():
        if name[1:5] == "axis" and f"{name[0]}{name[5:]}" in used:
            assert axis["anchor"] == "free" or axis["anchor"] in used, "plotly drops an axis without traces"
    rows = [drawn["layout"][name] for name in ("yaxis", "yaxis3")]
    maps = [drawn["layout"][name] for name in ("xaxis", "xaxis6")]
    for labels, weights in zip(rows, maps, strict=True):
        assert 0 <= weights["domain"][0] - labels["position"] < 0.03


def test_effects_stand_beside_the_maps_of_the_run_that_has_a_sweep(tmp_path: Path) -> None:
    run = open_run(record_mixing(tmp_path / "blocks", block=4))
    layout = mixing_outline(8, 4)
    change = np.full((9, 3, 2), np.nan)
    for target, columns in enumerate(layout.sources):
        change[target, list(columns)] = target + 1
    change[5] = np.nan
    assert "effect" not in depth_attention_data([run], DepthAttentionOptions()).arrays[run.id].coords
    write_sweep(run.path, "a", 250, change, layout=layout)
    array = depth_attention_data([run], DepthAttentionOptions(step=300, targets="mlp")).arrays[run.id]
    assert array["target"].values.tolist() == [2, 4, 6, 8]
    np.testing.assert_array_equal(array["effect"].values[:, 0], [2, 4, np.nan, 8])
    assert (array.attrs["measured"], array.attrs["sweep_step"]) == ("zero, step 250, 2 batches", 250)
    data = depth_attention_data([run], DepthAttentionOptions(step=300))
    drawn = untyped(depth_attention_plotly(data, look=Look(host="page"))["data"])
    roles = [trace["meta"]["role"] for trace in drawn]
    assert roles.count("effect") == 1
    (unmeasured,) = (trace for trace in drawn if trace["meta"]["role"] == "unmeasured")
    assert set(unmeasured["y"]) - {None} == {4.5, 5.5}, "row 6 alone, three cells of it"
    assert sum(entry is None for entry in unmeasured["y"]) == 2
