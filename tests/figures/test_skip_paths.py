"""Skip paths: which pairs are listed, and how arcs are drawn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import Look, SkipPathOptions, skip_paths_data, skip_paths_plotly
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.figures.mixing_runs import STEPS, record_mixing, weight
from tests.figures.runs import record


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("paths")
    record_mixing(folder / "full")
    record_mixing(folder / "again")
    record_mixing(folder / "early", steps=STEPS[:11])
    record_mixing(folder / "deep", layers=12)
    record(folder / "plain")
    return {name: open_run(folder / name) for name in ("full", "again", "early", "deep", "plain")}


def test_the_embedding_of_every_target_with_four_sources_is_a_path_from_the_step_it_crossed(
    runs: dict[str, Run],
) -> None:
    run = runs["full"]
    array = skip_paths_data([run], SkipPathOptions()).arrays[run.id]
    assert array["target"].values.tolist() == [4, 5, 6, 7, 8, 9]
    assert set(array["source_name"].values) == {"embedding"}
    assert set(array["source_layer"].values) == {0}
    assert array["distance"].values.tolist() == [4, 5, 6, 7, 8, 9]
    late = np.mean([weight(step, 4)[0] for step in STEPS[-4:]])
    assert array.values[0] == pytest.approx(late)
    assert array["contribution"].values[0] == pytest.approx(late - 0.2)
    # (1 + s)/(n + s) reaches 2/n at s = n/(n - 2): step 200 for 4 sources, 150 for 6.
    assert array["first_step"].values[[0, 2]].tolist() == [200, 150]


def test_a_distance_names_what_it_counts(tmp_path: Path, runs: dict[str, Run]) -> None:
    """Full AttnRes reads sublayers, Block AttnRes blocks: 4 of one are not 4 of the other."""
    blocks = open_run(record_mixing(tmp_path / "blocks", layers=16, block=4))
    arrays = skip_paths_data([runs["full"], blocks], SkipPathOptions()).arrays
    assert set(arrays[runs["full"].id]["distance_unit"].values) == {"sublayer"}
    assert set(arrays[blocks.id]["distance_unit"].values) == {"block"}
    data = skip_paths_data([blocks], SkipPathOptions())
    (described,) = skip_paths_plotly(data, look=Look(host="page"))["layout"]["meta"]["paths"].values()
    assert {path["distance_unit"] for path in described} == {"block"}


def test_hovering_can_say_which_records_a_weight_is_the_mean_of(runs: dict[str, Run]) -> None:
    data = skip_paths_data([runs["full"]], SkipPathOptions(step=255))
    array = data.arrays[runs["full"].id]
    assert set(array["records"].values) == {3}, "a tenth of 26 records"
    meta = skip_paths_plotly(data, look=Look(host="page"))["layout"]["meta"]
    assert meta["steps"] == {runs["full"].id: 250}


def test_options_keep_the_largest_the_heavy_and_the_distant(runs: dict[str, Run]) -> None:
    run = runs["full"]

    def targets(options: SkipPathOptions) -> list[int]:
        return [int(target) for target in skip_paths_data([run], options).arrays[run.id]["target"].values]

    assert targets(SkipPathOptions(top=2)) == [4, 5]
    assert targets(SkipPathOptions(least_distance=8)) == [8, 9]
    assert targets(SkipPathOptions(least_weight=0.5)) == [4]
    assert targets(SkipPathOptions(step=100)) == [], "at step 100 no weight has reached twice uniform"


def test_a_path_counts_the_runs_with_the_same_sources_that_share_it(runs: dict[str, Run]) -> None:
    three = [runs["full"], runs["again"], runs["early"], runs["deep"]]
    array = skip_paths_data(three, SkipPathOptions()).arrays[runs["full"].id]
    assert set(array["shared_by"].values) == {2}
    assert int(array["comparable"]) == 3


def test_a_run_without_depth_attention_is_named(runs: dict[str, Run]) -> None:
    data = skip_paths_data([runs["plain"], runs["full"]], SkipPathOptions())
    assert data.absent == {runs["plain"].id: "depth attention was not recorded"}


def test_arcs_go_from_source_to_target_the_second_run_below(runs: dict[str, Run]) -> None:
    data = skip_paths_data([runs["full"], runs["again"]], SkipPathOptions())
    arcs = [trace for trace in untyped(skip_paths_plotly(data, look=Look(host="page"))["data"])]
    above = [trace for trace in arcs if trace["meta"] == {"run": runs["full"].id, "role": "arc", "path": 5}]
    below = [trace for trace in arcs if trace["meta"] == {"run": runs["again"].id, "role": "arc", "path": 5}]
    assert (above[0]["x"][0], above[0]["x"][-1]) == (0, 9)
    assert above[0]["y"].max() == pytest.approx(1), "the longest arc is the highest"
    assert below[0]["y"].min() == pytest.approx(-1)


def test_runs_of_different_depth_share_an_axis_from_embedding_to_output(runs: dict[str, Run]) -> None:
    data = skip_paths_data([runs["full"], runs["deep"]], SkipPathOptions())
    drawn = untyped(skip_paths_plotly(data, look=Look(host="page"))["data"])
    ends = {trace["meta"]["run"]: trace["x"][-1] for trace in drawn if trace["x"][-1] > 0.99}
    assert set(ends) == {runs["full"].id, runs["deep"].id}
    assert max(trace["x"].max() for trace in drawn) == pytest.approx(1)


def test_an_unfinished_run_without_records_is_said(tmp_path: Path) -> None:
    run = open_run(record_mixing(tmp_path / "empty", steps=()))
    assert skip_paths_data([run], SkipPathOptions()).absent == {run.id: "no depth attention is recorded yet"}
