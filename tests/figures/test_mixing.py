"""Mixing, its rows and its entries over steps: what is drawn is what was recorded, in any design."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from depthscope.figures import (
    Look,
    MixingOptions,
    MixingRowOptions,
    MixingSeriesOptions,
    cancellation_top,
    figure,
    mixing_data,
    mixing_limits,
    mixing_plotly,
    mixing_row_data,
    mixing_row_plotly,
    mixing_series_data,
    mixing_series_plotly,
)
from depthscope.figures.origin_axis import STRIPS, OriginAxis
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.figures.origin_runs import NO_NUMBERS, STEPS, coefficients, mixing_row, record_origins, shares
from tests.figures.runs import record

DESIGNS = ("prenorm", "full-attnres", "hires", "cancelling")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("origins")
    for design in DESIGNS:
        record_origins(folder / design, design=design, block=4 if design == "hires" else 0)
    record_origins(folder / "deep", design="hires", layers=128, block=8, steps=(0, 300))
    record(folder / "plain")
    return {path.name: open_run(path) for path in folder.iterdir()}


def array_of(run: Run, **options: Any) -> xr.DataArray:
    return mixing_data([run], MixingOptions(**options)).arrays[run.id]


def drawn(run: Run, **options: Any) -> dict[str, Any]:
    data = mixing_data([run], MixingOptions(**options))
    return untyped(mixing_plotly(data, look=Look(host="page")))  # type: ignore[no-any-return]


@pytest.mark.parametrize("design", DESIGNS)
def test_a_map_holds_the_contributions_by_hand_and_its_rows_sum_to_one(
    runs: dict[str, Run], design: Any
) -> None:
    array = array_of(runs[design], step=104)
    assert int(array["step"]) == 100
    held = mixing_row(design, 100, 8)
    np.testing.assert_allclose(array.values, held["mixing_contribution"], atol=1e-6)
    np.testing.assert_allclose(array["sum"].values, np.ones(9), atol=1e-5)
    np.testing.assert_allclose(array["cancellation"].values, held["mixing_cancellation"], rtol=1e-5)
    assert array["origin_name"].values.tolist()[:2] == ["embedding", "1 attention"]
    assert array["origin_name"].values.tolist()[-2:] == ["8 MLP", "constant"]
    assert array["target_kind"].values.tolist() == ["attention", "mlp"] * 4 + ["output"]


def test_prenorm_s_coefficients_are_ones_and_attention_residuals_their_weights(runs: dict[str, Run]) -> None:
    ones = array_of(runs["prenorm"], share="coefficient")
    np.testing.assert_array_equal(ones.values[:, :-1][np.tril(np.ones((9, 9), bool))], np.ones(45))
    assert np.isnan(ones.values[:, -1]).all(), "a constant has no factor"
    weights = array_of(runs["full-attnres"], share="coefficient", step=100)
    np.testing.assert_allclose(weights.values[4, :5], coefficients("full-attnres", 100, 5), rtol=1e-6)


def test_a_run_without_coefficients_or_mixing_is_named_with_the_reason(runs: dict[str, Run]) -> None:
    chosen = [runs["hires"], runs["prenorm"], runs["plain"]]
    data = mixing_data(chosen, MixingOptions(share="coefficient"))
    assert list(data.arrays) == [runs["prenorm"].id]
    assert data.absent == {
        runs["hires"].id: NO_NUMBERS,
        runs["plain"].id: "coefficient of each origin was not recorded",
    }
    early = mixing_data([runs["deep"]], MixingOptions(step=-1))
    assert early.absent == {runs["deep"].id: "no record up to step -1"}


def test_coefficients_that_are_nowhere_defined_are_said_to_be_none(tmp_path: Path) -> None:
    run = open_run(record_origins(tmp_path / "run", design="full-attnres", undefined=True))
    data = mixing_data([run], MixingOptions(share="coefficient"))
    assert "is no number: a matrix" in data.absent[run.id]
    series = mixing_series_data([run], MixingSeriesOptions(share="coefficient"))
    assert "is no number: a matrix" in series.absent[run.id]


def test_a_read_that_was_not_taken_apart_has_no_share_no_sum_and_no_bar(tmp_path: Path) -> None:
    run = open_run(record_origins(tmp_path / "run", untaken=(4,)))
    array = array_of(run)
    assert np.isnan(array.values[3]).all()
    assert np.flatnonzero(np.isnan(array["sum"].values)).tolist() == [3]
    assert np.flatnonzero(np.isnan(array["cancellation"].values)).tolist() == [3]
    series = mixing_series_data([run], MixingSeriesOptions(target=4))
    assert series.absent == {run.id: "that read was not taken apart"}
    hatched = next(trace for trace in drawn(run)["data"] if trace["meta"]["role"] == "hatch")
    row = [x for x, y in zip(hatched["x"], hatched["y"], strict=True) if y == 2.5]
    places = OriginAxis(layers=8)
    assert min(row) == pytest.approx(places.ends[0])
    assert max(row) == pytest.approx(places.ends[1])


def test_a_difference_goes_to_a_run_of_any_design_with_as_many_sublayers(runs: dict[str, Run]) -> None:
    base, hires, deep = runs["prenorm"], runs["hires"], runs["deep"]
    data = mixing_data([base, hires, deep], MixingOptions(mode="difference", step=200, baseline=base.id))
    expected = shares("hires", 200, 5) - shares("prenorm", 200, 5)
    np.testing.assert_allclose(data.arrays[hires.id].values[4, :5], expected, atol=1e-6)
    np.testing.assert_allclose(data.arrays[hires.id].values[4, -1], 0.1, atol=1e-6)
    assert data.absent[base.id] == "it is the baseline"
    assert "it has 128 sublayers and the baseline prenorm 8" in data.absent[deep.id]
    to_step = MixingOptions(mode="difference", step=200, reference_step=0)
    array = mixing_data([base], to_step).arrays[base.id]
    np.testing.assert_allclose(
        array.values[4, :5], shares("prenorm", 200, 5) - shares("prenorm", 0, 5), atol=1e-6
    )


def test_colours_are_symmetric_without_the_first_read_and_end_at_one(runs: dict[str, Run]) -> None:
    plain, cancelling = (array_of(runs[name], step=0) for name in ("prenorm", "cancelling"))
    limits = mixing_limits([plain])
    assert limits is not None
    # At step 0 target n holds 1/n of each. Of the 52 shares below the first read, two halves lie in the largest 5 %.
    assert (limits.low, limits.high) == (pytest.approx(-0.35), pytest.approx(0.35)), "1/3, rounded up"
    assert limits.clips_high
    assert not limits.clips_low
    with_large = mixing_limits([plain, cancelling])
    assert with_large is not None
    assert (with_large.low, with_large.high) == (-1, 1), "2 and -2 do not make other runs pale"
    assert with_large.clips_low
    assert with_large.clips_high
    factors = mixing_limits([array_of(runs["prenorm"], share="coefficient")])
    assert factors is not None
    assert (factors.high, factors.clips_high) == (1, False)
    summed = array_of(runs["prenorm"], share="coefficient")
    summed[-1] *= 4
    streams = mixing_limits([summed])
    assert streams is not None
    assert (streams.high, streams.clips_high) == (1, True), (
        "a final read that sums streams is clipped, and that is said"
    )


def test_the_scale_of_cancellation_holds_the_largest_of_all_runs_up_to_ten(runs: dict[str, Run]) -> None:
    plain, cancelling = (array_of(runs[name]) for name in ("prenorm", "cancelling"))
    assert cancellation_top([plain]) == 2.5
    assert 4.5 <= cancellation_top([plain, cancelling]) <= 5
    assert cancellation_top([cancelling.assign_coords(cancellation=100 * cancelling["cancellation"])]) == 10


@pytest.mark.parametrize("design", DESIGNS)
def test_the_figure_draws_every_origin_once_and_cancellation_from_one(
    runs: dict[str, Run], design: str
) -> None:
    array = array_of(runs[design])
    by_role = {trace["meta"]["role"]: trace for trace in drawn(runs[design])["data"]}
    whole = np.concatenate([by_role[strip]["z"] for strip in STRIPS], axis=1)
    np.testing.assert_allclose(whole, array.values, rtol=1e-6)
    bars = by_role["cancellation"]
    np.testing.assert_allclose(bars["base"] + bars["x"], array["cancellation"].values)
    dark = np.array(bars["marker"]["color"]) == Look().theme["text-secondary"]
    np.testing.assert_array_equal(dark, array["cancellation"].values > 2)


@pytest.mark.parametrize(
    ("size", "words"), [(1.0, ["≤ 1"]), (1.0412, ["≤ 1.05"]), (1.05, ["≤ 1.05"]), (1.6, [])]
)
def test_where_no_bar_is_long_enough_to_be_seen_the_largest_is_written(
    runs: dict[str, Run], size: float, words: list[str]
) -> None:
    data = mixing_data([runs["prenorm"]], MixingOptions())
    told = {
        run: array.assign_coords(cancellation=size * xr.ones_like(array["cancellation"]))
        for run, array in data.arrays.items()
    }
    notes = mixing_plotly(replace(data, arrays=told), look=Look())["layout"]["annotations"]
    assert [note["text"] for note in notes if note["text"].startswith("≤")] == words


def test_rows_and_columns_of_blocks_are_parted_and_a_design_without_has_the_final_read_apart(
    runs: dict[str, Run],
) -> None:
    def gaps(name: str) -> list[tuple[str, float]]:
        shapes = drawn(runs[name])["layout"]["shapes"]
        surface = [shape for shape in shapes if shape["line"]["color"] == Look().theme["surface"]]
        return [
            ("row", shape["y0"] + 0.5) if shape["y0"] == shape["y1"] else ("column", shape["x0"] - 0.5)
            for shape in surface
        ]

    assert gaps("prenorm") == [("row", 8)]
    assert gaps("hires") == [("row", 4), ("row", 8), ("column", 4)]
    assert {kind for kind, _ in gaps("deep")} == {"row"}, "sixteen columns would outweigh what they part"


@given(st.integers(1, 400), st.sampled_from([150.0, 216.0, 440.0]), st.booleans())
def test_the_axis_of_origins_is_without_holes_and_its_labels_do_not_touch(
    layers: int, room: float, inward: bool
) -> None:
    axis = OriginAxis(layers=layers)
    each = room / (axis.ends[1] - axis.ends[0])
    low, high = axis.edges("embedding")
    assert high <= axis.edges("sublayers")[0] < axis.edges("sublayers")[1] <= axis.edges("constant")[0]
    assert (high - low) * each >= min(room / (layers + 2) * 0.8, 6), "the outer two can be read at any depth"
    columns = [np.arange(layers + 2)[axis.columns(strip)].tolist() for strip in STRIPS]
    assert [origin for strip in columns for origin in strip] == list(range(layers + 2))
    for strip, origins in zip(STRIPS, columns, strict=True):
        assert all(axis.edges(strip)[0] < axis.middle(origin) < axis.edges(strip)[1] for origin in origins)
    places, texts = axis.ticks(room, inward=inward)
    assert (texts[0], texts[-1]) == ("emb", "const")
    widths = [7 * len(text) if text.isdigit() else 28 for text in texts]
    begins = [place * each - width / 2 for place, width in zip(places, widths, strict=True)]
    if inward:
        begins[0], begins[-1] = places[0] * each, places[-1] * each - 28
    if len(places) > 2:
        assert all(
            right - left >= width + 5
            for (left, right), width in zip(pairwise(begins), widths[:-1], strict=True)
        )


def test_one_read_of_every_run_lies_on_one_axis_whatever_its_depth(runs: dict[str, Run]) -> None:
    chosen = [runs["hires"], runs["deep"]]
    data = mixing_row_data(chosen, MixingRowOptions(step=300))
    np.testing.assert_allclose(
        data.arrays[runs["deep"].id].values[:129], shares("hires", 300, 129), atol=1e-6
    )
    traces = untyped(mixing_row_plotly(data, look=Look(host="page")))["data"]
    for name in ("embedding", "constant"):
        places = {float(trace["x"][0]) for trace in traces if trace["meta"]["role"] == name}
        assert len(places) == 1, "embedding above embedding, constant above constant"
    lines = [trace for trace in traces if trace["meta"]["role"] == "sublayers"]
    assert [len(trace["x"]) for trace in lines] == [8, 128]
    assert lines[0]["line"]["dash"] != lines[1]["line"]["dash"], "told apart without colours"
    too_deep = mixing_row_data(chosen, MixingRowOptions(target=100))
    assert too_deep.absent == {runs["hires"].id: "it has 8 sublayers, so none with number 100"}


def test_an_entry_over_steps_of_every_run(runs: dict[str, Run]) -> None:
    chosen = [runs["prenorm"], runs["hires"]]
    data = mixing_series_data(chosen, MixingSeriesOptions(target=5, origin=4))
    for run in chosen:
        expected = [shares(run.name, step, 5)[4] for step in STEPS]  # type: ignore[arg-type]
        np.testing.assert_allclose(data.arrays[run.id].values, expected, rtol=1e-5)
        np.testing.assert_array_equal(data.arrays[run.id]["step"].values, STEPS)
    drawn_lines = untyped(mixing_series_plotly(data, look=Look(host="page"), end=500))
    assert drawn_lines["layout"]["xaxis"]["range"] == [0, 500]
    assert [label["run"] for label in drawn_lines["layout"]["meta"]["labels"]] == [run.id for run in chosen]
    constant = mixing_series_data(chosen, MixingSeriesOptions(origin=None))
    np.testing.assert_allclose(constant.arrays[runs["hires"].id].values, np.full(len(STEPS), 0.1), rtol=1e-6)
    late = mixing_series_data(chosen, MixingSeriesOptions(target=3, origin=5))
    assert set(late.absent.values()) == {"sublayer 3 reads before sublayer 5 has written"}
    factor = mixing_series_data([runs["prenorm"]], MixingSeriesOptions(origin=None, share="coefficient"))
    assert factor.absent == {runs["prenorm"].id: "a constant has no coefficient"}


@given(
    design=st.sampled_from(DESIGNS),
    step=st.integers(0, 299),
    target=st.integers(1, 9),
    origin=st.integers(0, 9),
)
def test_map_row_and_series_agree_on_every_entry(
    runs: dict[str, Run], design: Any, step: int, target: int, origin: int
) -> None:
    run = runs[design]
    whole = array_of(run, step=step).values
    final, constant = target == 9, origin == 9
    row = mixing_row_data([run], MixingRowOptions(step=step, target=None if final else target))
    np.testing.assert_array_equal(row.arrays[run.id].values, whole[target - 1])
    options = MixingSeriesOptions(
        target=None if final else target, origin=None if constant else origin, columns=400
    )
    series = mixing_series_data([run], options)
    if not constant and origin >= target:
        assert "has written" in series.absent[run.id]
        assert np.isnan(whole[target - 1, origin])
    else:
        np.testing.assert_allclose(
            series.arrays[run.id].values[step // 10], whole[target - 1, origin], atol=1e-6
        )


def test_the_figure_stands_alone_in_a_notebook_with_names_and_a_colour_bar(runs: dict[str, Run]) -> None:
    drawn_alone = figure("mixing", [runs["prenorm"], runs["hires"]])
    assert {note.text for note in drawn_alone.layout.annotations} >= {"prenorm", "hires", "contribution"}
    assert drawn_alone.layout.coloraxis.showscale
    cell = next(trace for trace in drawn_alone.data if trace.meta["role"] == "sublayers")
    assert cell.text[4][3] == "5 attention reads 4 MLP"
