"""The depth profile: what it draws is what the store holds, in the units and at the steps that it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import ProfileOptions, depth_profile_data, figure, figure_data, sampled_words
from depthscope.store import open_run
from tests.figures.origin_runs import record_origins, shares
from tests.figures.runs import record, state


def test_the_typical_token_is_the_exponential_of_what_is_stored(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    data = depth_profile_data([run], ProfileOptions(quantity="state_logrms", step=100))
    stored = run.read("state_logrms", start=100, stop=101).values[0]
    np.testing.assert_array_equal(data.arrays[run.id].values[0], np.exp(stored.astype(np.float64)))
    np.testing.assert_allclose(data.arrays[run.id].values[0], state(100, 8), rtol=1e-6)


@pytest.mark.parametrize(("asked", "found"), [(100, 100), (109, 100), (110, 110), (10**9, 300), (None, 300)])
def test_a_step_between_rows_shows_the_newest_row_before_it(
    tmp_path: Path, asked: int | None, found: int
) -> None:
    run = open_run(record(tmp_path / "a"))
    array = depth_profile_data([run], ProfileOptions(quantity="state_rms", step=asked)).arrays[run.id]
    assert int(array["step"].values[0]) == found
    np.testing.assert_allclose(array.values[0], state(found, 8), rtol=1e-6)


def test_before_its_first_row_a_run_shows_nothing(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a", steps=range(50, 100, 10)))
    array = depth_profile_data([run], ProfileOptions(quantity="state_rms", step=40)).arrays[run.id]
    assert int(array["step"].values[0]) == -1
    assert np.isnan(array.values[0]).all()


def test_ratio_to_first_starts_at_one(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    array = depth_profile_data([run], ProfileOptions(mode="ratio", step=0)).arrays[run.id]
    np.testing.assert_allclose(array.values[0], (1 + np.arange(1, 9) / 8) / (1 + 1 / 8), rtol=1e-6)


@pytest.mark.parametrize(("mode", "quantity"), [("fresh", "fresh_share"), ("write", "write_ratio")])
def test_fresh_share_and_write_ratio_are_quantities_of_their_own(
    tmp_path: Path, mode: str, quantity: str
) -> None:
    run = open_run(record(tmp_path / "a"))
    data = figure_data("depth-profile", run, mode=mode, step=100)
    np.testing.assert_allclose(data.arrays[run.id].values[0], run.read(quantity, 100, 101).values[0])
    assert data.references, "the curve of equal uncorrelated writes belongs beside it"


def test_a_share_that_only_contributions_hold_is_drawn_beside_one_of_all_tokens(tmp_path: Path) -> None:
    whole, sampled = open_run(record(tmp_path / "a")), open_run(record_origins(tmp_path / "b"))
    for name, dims in (("depth-profile", ("moment", "layer")), ("depth-map", ("layer", "column"))):
        data = figure_data(name, [whole, sampled], quantity="fresh_share")
        assert data.arrays[sampled.id].dims == dims
        assert sampled_words(data) == "b: a sample of tokens"
        assert not sampled_words(figure_data(name, [whole, sampled]))
        values = data.arrays[sampled.id].values
        newest = values[0] if name == "depth-profile" else values[:, -1]
        expected = [shares("prenorm", 300, layer + 1)[layer] for layer in range(1, 9)]
        np.testing.assert_allclose(newest, expected, rtol=1e-6)


def test_the_line_of_equal_writes_is_left_out_where_no_write_is_added(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a", block=4))
    assert not figure_data("depth-profile", run, mode="write").references


def test_a_run_of_twice_the_size_differs_by_one_in_log2(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", scale=2.0))]
    data = depth_profile_data(runs, ProfileOptions(mode="difference", step=100, baseline=runs[0].id))
    np.testing.assert_allclose(data.arrays[runs[1].id].values[0], 1.0, atol=1e-6)
    np.testing.assert_allclose(data.arrays[runs[0].id].values[0], 0.0, atol=1e-12)


def test_a_difference_compares_the_step_that_the_shorter_run_stands_at(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", steps=range(0, 101, 10)))]
    data = depth_profile_data(runs, ProfileOptions(mode="difference", step=300, baseline=runs[0].id))
    np.testing.assert_allclose(data.arrays[runs[1].id].values[0], 0.0, atol=1e-6)


def test_runs_of_other_depth_have_no_difference_and_say_so(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", layers=4))]
    data = depth_profile_data(runs, ProfileOptions(mode="difference", baseline=runs[0].id))
    assert list(data.arrays) == [runs[0].id]
    assert data.absent[runs[1].id] == "has 4 sublayers, the baseline a has 8"


def test_a_run_without_the_quantity_gives_the_reason_and_the_others_are_drawn(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", arrays=("state_rms",)))]
    data = depth_profile_data(runs, ProfileOptions(quantity="write_cosine"))
    assert list(data.arrays) == [runs[0].id]
    assert data.absent == {runs[1].id: "write cosine was not recorded"}


def test_a_damaged_run_is_named_and_the_others_are_drawn(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b"))]
    for chunk in (tmp_path / "b").rglob("fast/state_logrms/c*"):
        chunk.write_bytes(b"not a chunk")
    data = depth_profile_data(runs, ProfileOptions())
    assert list(data.arrays) == [runs[0].id]
    assert data.absent[runs[1].id].startswith("cannot be read: the run b is damaged")


def test_pins_are_shown_for_the_focused_run_only(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / name)) for name in "abc"]
    options = ProfileOptions(quantity="state_rms", step=300, pins=(0, 105), pinned_runs=[runs[1].id])
    data = depth_profile_data(runs, options)
    assert [data.arrays[run.id]["step"].values.tolist() for run in runs] == [[300], [300, 0, 100], [300]]


def test_at_equal_tokens_a_run_with_half_the_batch_stands_at_twice_the_step(tmp_path: Path) -> None:
    halved = {step: {"tokens": 32.0 * step} for step in range(0, 301, 10)}
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", changes=halved))]
    data = depth_profile_data(runs, ProfileOptions(step=100, align="tokens", baseline=runs[0].id))
    assert [int(data.arrays[run.id]["step"].values[0]) for run in runs] == [100, 200]


def test_at_equal_loss_a_run_stands_where_its_loss_first_reached_the_baselines(tmp_path: Path) -> None:
    late = {step: {"loss": 5 * np.exp(-max(step - 50, 0) / 100) + 1} for step in range(0, 301, 10)}
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", changes=late))]
    data = depth_profile_data(runs, ProfileOptions(step=100, align="loss", baseline=runs[0].id))
    assert [int(data.arrays[run.id]["step"].values[0]) for run in runs] == [100, 150]


def test_plotly_draws_the_numbers_of_the_data_function(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", scale=3.0, block=4))]
    drawn = figure("depth-profile", runs, step=200)
    data = figure_data("depth-profile", runs, step=200)
    lines = [trace for trace in drawn.data if trace.mode == "lines+markers"]
    assert len(lines) == 2
    for trace, array in zip(lines, data.arrays.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(trace.y), array.values[0])


def test_each_unusual_value_gets_its_mark_and_is_counted(tmp_path: Path) -> None:
    odd = state(300, 8)
    odd[[1, 2, 3, 4]] = np.nan, np.inf, 0.0, -1.0
    run = open_run(record(tmp_path / "a", changes={300: {"state_rms": odd}}))
    drawn = figure("depth-profile", run, quantity="state_rms", step=300)
    assert drawn.layout.meta["unusual"] == "1 NaN, 1 infinite, 2 zero or less"
    places = {
        trace.meta["kind"]: np.asarray(trace.x).tolist()
        for trace in drawn.data
        if trace.meta["role"] == "mark"
    }
    assert places == {"NaN": [2.0], "infinite": [3.0], "zero or less": [4.0, 5.0]}


def test_an_entry_that_the_design_cannot_have_is_no_unusual_value(tmp_path: Path) -> None:
    absent = {300: {"fresh_share": np.where(np.arange(8) == 3, np.nan, 0.5)}}
    run = open_run(record(tmp_path / "a", unfresh=(4,), changes=absent))
    assert figure("depth-profile", run, mode="fresh", step=300).layout.meta["unusual"] == ""


def test_runs_of_different_depth_share_a_normalised_axis(tmp_path: Path) -> None:
    runs = [open_run(record(tmp_path / "a")), open_run(record(tmp_path / "b", layers=4))]
    drawn = figure("depth-profile", runs)
    lines = [np.asarray(trace.x) for trace in drawn.data if trace.mode == "lines+markers"]
    np.testing.assert_allclose(lines[0], (np.arange(8) + 0.5) / 8)
    np.testing.assert_allclose(lines[1], (np.arange(4) + 0.5) / 4)
    assert drawn.layout.xaxis.title.text == "depth, share of the sublayers"


def test_filled_markers_are_attention_and_hollow_ones_mlp(tmp_path: Path) -> None:
    drawn = figure("depth-profile", open_run(record(tmp_path / "a")))
    assert list(drawn.data[0].marker.color) == ["#0072B2", "#FFFFFF"] * 4


def test_a_run_name_is_text_and_never_markup(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a", name='<a href="x">run</a> %{y}'))
    drawn = figure("depth-profile", run)
    assert "<a" not in drawn.data[0].name
    assert "&lt;a" in drawn.data[0].name
    assert drawn.data[0].hovertemplate.count("%{y") == 1


def test_nothing_to_draw_is_an_error_with_each_runs_reason(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "bare", arrays=("state_rms",)))
    with pytest.raises(ValueError, match="bare: fresh share was not recorded"):
        figure("depth-profile", run, mode="fresh")


def test_unknown_names_and_options_are_answered_with_what_there_is(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "a"))
    with pytest.raises(KeyError, match="did you mean 'depth-profile'"):
        figure("depth-profil", run)
    with pytest.raises(TypeError, match="no option 'stepp'; it takes quantity, mode, step"):
        figure("depth-profile", run, stepp=3)


def test_a_pinned_step_and_a_reference_stay_on_the_axis(tmp_path: Path) -> None:
    tiny = {0: {"state_rms": np.full(8, 1e-6), "fresh_share": np.full(8, 0.9)}}
    run = open_run(record(tmp_path / "a", changes=tiny))
    low, _ = figure("depth-profile", run, quantity="state_rms", step=300, pins=(0,)).layout.yaxis.range
    assert low < -6
    low, _ = figure("depth-profile", run, quantity="state_rms", step=300).layout.yaxis.range
    assert low > -1, "the first tenth of the records does not hold the axis"
    low, high = figure("depth-profile", run, mode="write", step=300).layout.yaxis.range
    assert low < np.log10(1 / np.sqrt(8))
    assert high > np.log10(1.0), "the line of equal writes begins at 1, the values at 0.5"
