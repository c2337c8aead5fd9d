"""Effects: which pairs become points, where routing and effect disagree, and how the axis holds both signs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from depthscope.figures import (
    DepthAttentionOptions,
    EffectPairs,
    EffectsOptions,
    Look,
    SkipPathOptions,
    depth_attention_data,
    effect_limits,
    effect_pairs,
    effect_scatter_plotly,
    effects_data,
    figure,
    paired_words,
    skip_paths_data,
)
from depthscope.figures.effect_axis import EffectAxis
from depthscope.figures.effect_scatter_plotly import kept
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.analysis.sweeps import write_sweep
from tests.figures.mixing_runs import mixing_outline, record_mixing, weight
from tests.figures.runs import record

LAYOUT = mixing_outline(8)


def changes(batches: int = 2) -> np.ndarray[Any, Any]:
    """Return target + source / 100 in nats, 0.1 more in each further batch; the only source is never cut."""
    out = np.full((9, 9, batches), np.nan)
    for target, columns in enumerate(LAYOUT.sources):
        if len(columns) > 1:
            for source in columns:
                out[target, source] = target + 1 + source / 100 + 0.1 * np.arange(batches)
    return out


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(record_mixing(tmp_path / "full"))


def only(run: Run, **options: Any) -> Any:
    return effects_data([run], EffectsOptions(**options)).arrays[run.id]


def test_a_cell_is_the_mean_over_batches_beside_the_weight_of_its_checkpoint(run: Run) -> None:
    write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    array = only(run)
    assert array.values[4, 2] == pytest.approx(5 + 0.02 + 0.05)
    # t of one degree of freedom times the deviation of 0.0 and 0.1 over the root of two batches.
    assert array["interval"].values[4, 2] == pytest.approx(12.7062 * 0.1 / 2**0.5 / 2**0.5)
    np.testing.assert_allclose(array["weight"].values[4, :5], weight(200, 5), rtol=1e-3)
    assert (array.attrs["sweep_step"], array.attrs["record_step"], array.attrs["mode"]) == (200, 200, "zero")
    assert set(array["batches"].values[array["reachable"].values & np.isfinite(array.values)]) == {2}


def test_a_targets_only_source_is_reachable_and_not_measured(run: Run) -> None:
    write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    array = only(run)
    assert array["reachable"].values[0].tolist() == [True] + [False] * 8
    assert np.isnan(array.values[0, 0])
    assert array["n_sources"].values.tolist() == list(range(1, 10))
    assert not array["shown"].values[0].any()


def test_points_are_distant_pairs_with_a_weight(run: Run) -> None:
    write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    assert only(run)["shown"].values.sum() == sum(range(1, 9)), "all but each target's newest source"
    assert only(run, least_distance=1)["shown"].values.sum() == sum(range(2, 10))
    assert only(run, least_distance=9)["shown"].values.sum() == 1


def test_the_sweep_shown_is_that_of_the_step_and_the_mode(run: Run) -> None:
    write_sweep(run.path, "a", 100, changes(), layout=LAYOUT)
    write_sweep(run.path, "b", 200, 2 * changes(), layout=LAYOUT, mode="mean")
    assert [only(run, step=step).attrs["sweep"] for step in (None, 300, 149, 50)] == ["b", "b", "a", "a"]
    assert only(run, cut="zero").attrs["sweep"] == "a"
    missing = effects_data([run], EffectsOptions(cut="resample"))
    assert missing.absent == {run.id: "no effect is measured with mode resample"}


def test_a_run_without_a_sweep_and_one_that_has_just_begun_say_so(run: Run, tmp_path: Path) -> None:
    plain = open_run(record(tmp_path / "plain"))
    begun = open_run(record_mixing(tmp_path / "begun"))
    store = write_sweep(begun.path, "a", 200, changes(), layout=LAYOUT)
    for file in (store.path / "loss_change").glob("c.*"):
        file.unlink()
    data = effects_data([plain, begun, run], EffectsOptions())
    assert data.absent == {
        plain.id: "no effect is measured; type: depthscope causal RUN",
        begun.id: "no effect is measured yet: the sweep a has just begun",
        run.id: "no effect is measured; type: depthscope causal RUN",
    }


def test_a_damaged_sweep_is_named_and_other_runs_stay(run: Run, tmp_path: Path) -> None:
    other = open_run(record_mixing(tmp_path / "other"))
    store = write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    write_sweep(other.path, "a", 200, changes(), layout=LAYOUT)
    (store.path / "loss_change" / "c.3.0.0").write_bytes(b"no chunk")
    data = effects_data([run, other], EffectsOptions())
    assert list(data.arrays) == [other.id]
    assert data.absent[run.id].startswith("sweep a of run full is damaged: loss_change/c.3.0.0")


def test_a_damaged_sweep_costs_effects_alone(run: Run) -> None:
    whole = skip_paths_data([run], SkipPathOptions()).arrays[run.id]
    store = write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    (store.path / "loss_change" / "c.5.0.1").write_bytes(b"10 bytes..")
    told = "sweep a of run full is damaged: loss_change/c.5.0.1: a chunk file is 10 bytes long"
    paths = skip_paths_data([run], SkipPathOptions()).arrays[run.id]
    maps = depth_attention_data([run], DepthAttentionOptions()).arrays[run.id]
    np.testing.assert_array_equal(paths.values, whole.values)
    for array in (paths, maps):
        assert (array.attrs["sweep_damaged"], array.attrs["measured"]) == (told, "")
        assert "effect" not in array.coords


def test_a_damaged_twin_takes_nothing_from_the_sweep_that_is_shown(run: Run) -> None:
    write_sweep(run.path, "zero", 200, changes(), layout=LAYOUT)
    store = write_sweep(run.path, "other", 200, changes(), layout=LAYOUT, mode="renormalise")
    (store.path / "loss_change" / "c.5.0.1").write_bytes(b"no chunk")
    assert np.isnan(only(run, cut="zero").attrs["largest_difference"])


def test_how_far_zero_and_renormalise_are_apart_is_said_of_the_same_weights_and_data(run: Run) -> None:
    same = {"identity": {"weights": "w", "data": "d"}, "note": "they agree"}
    write_sweep(run.path, "zero", 200, changes(), layout=LAYOUT, **same)
    assert np.isnan(only(run).attrs["largest_difference"])
    moved = changes()
    moved[5, 1] += 0.004
    write_sweep(run.path, "other", 200, moved, layout=LAYOUT, mode="renormalise", **same)
    assert only(run, cut="zero").attrs["largest_difference"] == pytest.approx(0.004)
    words = effect_scatter_plotly(effects_data([run], EffectsOptions()), look=Look(host="page"))["layout"][
        "meta"
    ]
    assert (
        " ".join(row["text"] for row in words["rows"])
        .rstrip()
        .endswith(
            ". Zero and renormalise agree where a mix feeds only an RMSNorm; here they differ by 0.004 at most"
        )
    )
    elsewhere = {"identity": {"weights": "other", "data": "d"}}
    write_sweep(run.path, "mean", 210, changes(), layout=LAYOUT, **elsewhere)
    write_sweep(run.path, "last", 210, moved, layout=LAYOUT, mode="renormalise", **same)
    assert np.isnan(only(run).attrs["largest_difference"]), "measured on other weights"


def test_points_stand_at_weight_and_effect_with_their_interval(run: Run) -> None:
    write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    data = effects_data([run], EffectsOptions())
    drawn = untyped(effect_scatter_plotly(data, look=Look(host="page"), log=False)["data"])
    array = data.arrays[run.id]
    at = np.concatenate([trace["x"] for trace in drawn]), np.concatenate([trace["y"] for trace in drawn])
    shown = array["shown"].values
    assert sorted(at[0]) == pytest.approx(sorted(array["weight"].values[shown]))
    assert sorted(at[1]) == pytest.approx(sorted(array.values[shown]))
    bars = np.concatenate([trace["error_y"]["array"] for trace in drawn])
    assert bars == pytest.approx(np.full(36, 12.7062 * 0.1 / 2))


def test_weights_of_another_step_than_the_effects_are_told(run: Run) -> None:
    write_sweep(run.path, "a", 206, changes(), layout=LAYOUT)
    data = effects_data([run], EffectsOptions())
    apart = "effect of step 206 beside weights of step 200"
    assert paired_words(data.arrays[run.id]) == f"zero, 2 batches, {apart}"
    layout = effect_scatter_plotly(data, look=Look(host="page"))["layout"]
    assert apart in " ".join(row["text"] for row in layout["meta"]["rows"])
    assert layout["xaxis"]["title"]["text"] == "weight of step 200"
    write_sweep(run.path, "b", 210, changes(), layout=LAYOUT)
    assert paired_words(only(run)) == "zero, step 210, 2 batches"


def test_a_notebook_shows_scatter_and_map(run: Run) -> None:
    write_sweep(run.path, "a", 200, changes(), layout=LAYOUT)
    drawn = figure("effects", run)
    roles = [trace.meta["role"] for trace in drawn.data]
    assert roles == ["plain", "free", "costly", "effect", "hatch", "unmeasured"]
    assert drawn.layout.coloraxis.cmin == -drawn.layout.coloraxis.cmax


def test_the_colours_go_to_the_90th_percentile_and_say_what_lies_beyond(run: Run) -> None:
    wide = np.where(np.isfinite(changes()), 0.01, np.nan)
    wide[8, 0] = 1.0
    write_sweep(run.path, "a", 200, wide, layout=LAYOUT)
    limits = effect_limits([only(run)])
    assert limits is not None
    assert (limits.low, limits.high, limits.clips_low, limits.clips_high) == (-0.01, 0.01, False, True)
    assert effect_limits([]) is None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(record_mixing(tmp_path_factory.mktemp("shared") / "full", steps=(0, 200)))


SIZES = st.floats(-2.0, 2.0).map(lambda value: round(value, 6))


@settings(max_examples=25, deadline=None)
@given(changed=arrays(np.float64, (9, 9, 2), elements=SIZES), least=st.integers(1, 9))
def test_every_point_is_a_measured_pair_and_every_rank_correlation_is_one(
    shared: Run, changed: np.ndarray[Any, Any], least: int
) -> None:
    measured = np.where(np.isfinite(changes()), changed, np.nan)
    shutil.rmtree(shared.path / "causal", ignore_errors=True)
    write_sweep(shared.path, "a", 200, measured, layout=LAYOUT)
    array = only(shared, least_distance=least)
    pairs = effect_pairs(array, "weight")
    assert pairs.effect.size == array["shown"].values.sum()
    assert not (pairs.free & pairs.costly).any()
    for place in np.flatnonzero(pairs.free):
        assert abs(pairs.effect[place]) <= pairs.interval[place]
    for place in np.flatnonzero(pairs.costly):
        assert pairs.effect[place] > pairs.interval[place]
    for value in (pairs.with_weight, pairs.with_contribution):
        assert np.isnan(value) or -1.000001 <= value <= 1.000001


@settings(deadline=None)
@given(
    noise=st.floats(1e-6, 10.0),
    reach=st.floats(1e-3, 1e4),
    effects=arrays(np.float64, 7, elements=st.floats(-1e3, 1e3)),
    log=st.booleans(),
)
def test_the_axis_keeps_order_and_sign_and_its_ticks_lie_on_it(
    noise: float, reach: float, effects: np.ndarray[Any, Any], log: bool
) -> None:
    axis = EffectAxis(noise=noise, log=log, low=-reach / 3, high=reach)
    ordered = axis.place(np.sort(effects))
    assert (np.diff(ordered) >= 0).all()
    np.testing.assert_allclose(axis.place(-effects), -axis.place(effects))
    low, high = axis.ends
    places = axis.place(axis.ticks)
    assert 0.0 in axis.ticks
    assert len(set(axis.tick_text)) == len(axis.ticks)
    assert ((places >= low - 1e-9) & (places <= high + 1e-9)).all()


@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 900), most=st.integers(50, 700), seed=st.integers(0, 2**16))
def test_many_points_are_thinned_and_those_that_disagree_stay(count: int, most: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    marked = random.random(count) < 0.05
    marked[np.flatnonzero(marked)[most:]] = False
    pairs = EffectPairs(
        rows=np.arange(count),
        columns=np.arange(count),
        width=random.random(count),
        effect=random.normal(size=count),
        interval=np.ones(count),
        free=marked,
        costly=np.zeros(count, dtype=bool),
        with_weight=0.0,
        with_contribution=0.0,
    )
    chosen = kept(pairs, most)
    assert chosen.size == min(count, most)
    assert set(np.flatnonzero(marked)) <= set(chosen.tolist())
    if count and marked.sum() + 2 <= most:
        assert int(np.argmax(pairs.width)) in chosen
        assert int(np.argmax(np.abs(pairs.effect))) in chosen


def test_a_deep_run_draws_600_points_and_says_so(tmp_path: Path) -> None:
    layout = mixing_outline(48)
    run = open_run(record_mixing(tmp_path / "deep", layers=48, steps=(0, 200)))
    change = np.full((49, 49, 2), np.nan)
    for target, columns in enumerate(layout.sources):
        change[target, list(columns)] = np.arange(len(columns))[:, None] + np.array([0.0, 0.1])
    write_sweep(run.path, "a", 200, change, layout=layout)
    drawn = effect_scatter_plotly(effects_data([run], EffectsOptions()), look=Look(host="page"))
    assert sum(len(trace["customdata"]) for trace in drawn["data"]) == 600
    meta = drawn["layout"]["meta"]
    said = " ".join(row["text"] for row in meta["rows"])
    assert "over 1,176 pairs, 600 of them drawn" in said, "48 * 49 / 2"
    assert max(len(row["text"]) for row in meta["rows"]) <= 88
    assert len(meta["rows"][-1]["text"]) <= 38, "room for where the page stands"
    for trace in untyped(drawn["data"]):
        for y, place in zip(trace["y"], trace["customdata"], strict=True):
            effect = meta["runs"][run.id]["effect"][place]
            assert np.sign(y) == np.sign(effect)
