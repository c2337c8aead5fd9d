"""Lenses: means over batches at the depths they belong to, and what a run without one says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthscope.figures import (
    LENS_SHOWS,
    LensOptions,
    LensShow,
    LensTokensOptions,
    Look,
    figure,
    lens_data,
    lens_plotly,
    lens_tokens_data,
)
from depthscope.figures.lens import part_places
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.analysis.sweeps import write_lens
from tests.figures.mixing_runs import mixing_outline, record_mixing
from tests.figures.runs import record

SHOWN: tuple[LensShow, ...] = ("kl", "agreement", "influence", "attribution", "cka")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(record_mixing(tmp_path / "blocks", block=4))


def only(run: Run, show: LensShow, **options: Any) -> Any:
    return lens_data([run], LensOptions(show=show, **options)).arrays[run.id]


def test_each_lens_is_a_mean_over_batches_with_its_interval(run: Run) -> None:
    write_lens(run.path, "a", 200, run.layout)
    kl = only(run, "kl")
    np.testing.assert_allclose(kl.values, 1.05 * np.arange(9)[::-1])
    # Batches 1 and 1.1 times: t of one degree of freedom times half their difference.
    np.testing.assert_allclose(kl["interval"].values, 12.7062 * 0.05 * np.arange(9)[::-1])
    assert kl["place_name"].values.tolist()[:2] == ["embedding", "1 attention"]
    assert kl["x"].values.tolist() == list(range(9))
    np.testing.assert_allclose(only(run, "agreement").values, np.arange(9) / 8)
    influence = only(run, "influence")
    assert influence["x"].values.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(influence.values, 1.05 * np.arange(1, 5) / 10)
    assert only(run, "cka").values[2, 5] == pytest.approx(1 / 4)
    assert (kl.attrs["sweep_step"], kl.attrs["batches"], kl.attrs["k"]) == (200, 2, 5)


def test_what_a_source_adds_lies_where_the_source_is_complete(run: Run) -> None:
    write_lens(run.path, "a", 200, run.layout)
    array = only(run, "attribution")
    assert array["place_name"].values.tolist() == ["embedding", "block 1", "block 2", "constant"]
    assert array["x"].values.tolist() == [0, 4, 8, 9]
    np.testing.assert_allclose(array.values, 1.05 * np.arange(4))
    drawn = untyped(
        lens_plotly(lens_data([run], LensOptions(show="attribution")), look=Look(host="page"))["data"]
    )
    assert [(trace["meta"]["role"], trace["x"].tolist()) for trace in drawn] == [
        ("line", [0, 4, 8]),
        ("constant", [9]),
    ]


def test_sublayers_of_designs_without_mixers_lie_at_their_number() -> None:
    layout = mixing_outline(8)
    assert part_places(layout, ["embedding", "sublayer 3", "constant"]) == [0, 3, 9]
    assert part_places(layout, ["embedding", "5 attention", "constant"]) == [0, 5, 9]


def test_a_lens_without_an_attribution_says_why_and_has_the_rest(run: Run) -> None:
    write_lens(run.path, "a", 200, run.layout, attribution=False)
    data = lens_data([run], LensOptions(show="attribution"))
    assert data.absent == {run.id: "the logits have a soft cap"}
    assert only(run, "kl").size == 9


def test_the_lens_shown_is_that_of_the_step_and_a_run_without_says_what_to_type(
    run: Run, tmp_path: Path
) -> None:
    plain = open_run(record(tmp_path / "plain"))
    write_lens(run.path, "a", 100, run.layout)
    write_lens(run.path, "b", 200, run.layout, scale=2.0)
    assert [only(run, "kl", step=step).attrs["sweep"] for step in (None, 149, 50)] == ["b", "a", "a"]
    absent = lens_data([plain], LensOptions()).absent[plain.id]
    assert absent == "no lens is measured; type: depthscope causal RUN --kind lens"


def test_the_zero_of_the_output_is_left_out_of_a_log_axis_and_said(run: Run) -> None:
    write_lens(run.path, "a", 200, run.layout)
    drawn = lens_plotly(lens_data([run], LensOptions()), look=Look(host="page"), log=True)
    y = untyped(drawn["data"])[0]["y"]
    assert np.isnan(y[-1])
    assert np.isfinite(y[:-1]).all()
    assert drawn["layout"]["meta"]["note"] == "0 of the output itself left out"
    assert lens_plotly(lens_data([run], LensOptions()), look=Look())["layout"]["meta"]["note"] == ""


def test_tokens_are_those_of_one_sequence_with_the_token_that_each_state_makes_likeliest(run: Run) -> None:
    write_lens(run.path, "a", 200, run.layout)
    array = lens_tokens_data([run], LensTokensOptions()).arrays[run.id]
    np.testing.assert_allclose(array.values, np.arange(9)[::-1, None] + np.arange(5) / 10)
    np.testing.assert_array_equal(array["likeliest"].values, 100 * np.arange(9)[:, None] + np.arange(5))
    second = lens_tokens_data([run], LensTokensOptions(sequence=1)).arrays[run.id]
    np.testing.assert_allclose(second.values, array.values + 1)
    reason = lens_tokens_data([run], LensTokensOptions(sequence=2)).absent[run.id]
    assert reason == "the lens a keeps 2 sequences, from 0"


@pytest.mark.parametrize("show", SHOWN)
def test_every_lens_is_a_figure_of_its_own(run: Run, show: LensShow) -> None:
    write_lens(run.path, "a", 200, run.layout)
    assert show in LENS_SHOWS
    drawn = figure("lens", run, show=show)
    assert len(drawn.data) == (2 if show == "attribution" else 1)


@settings(deadline=None)
@given(layers=st.integers(2, 32), block=st.integers(1, 8))
def test_parts_lie_in_order_between_the_embedding_and_the_constant(layers: int, block: int) -> None:
    layout = mixing_outline(layers - layers % block or block, block)
    places = part_places(layout, [*layout.source_names, "constant"])
    assert places[0] == 0
    assert places[-1] == layout.layers + 1
    assert places == sorted(places)
    assert len(set(places)) == len(places)
