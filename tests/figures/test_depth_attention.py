"""Depth attention, its series and its distant sources: what is drawn is what was recorded."""

from __future__ import annotations

from pathlib import Path

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
    cell_series_data,
    cell_series_plotly,
    depth_attention_data,
    depth_attention_plotly,
    distant_sources,
)
from depthscope.figures.attention_marks import boxes_of, hatched
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.figures.mixing_runs import contribution, record_mixing, weight
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
