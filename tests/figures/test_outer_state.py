"""Outer state: energies, gates and the direct path are those recorded; a run without a wide state is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthscope.figures import (
    Look,
    OuterHistoryOptions,
    OuterStateOptions,
    figure,
    outer_history_data,
    outer_line_plotly,
    outer_map_plotly,
    outer_state_data,
    outer_state_plotly,
)
from depthscope.figures.typed import untyped
from depthscope.store import Run, open_run
from tests.figures.mixing_runs import STEPS, energy, record_mixing, record_outer
from tests.figures.runs import record


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("outer")
    record_outer(folder / "wide")
    record_outer(folder / "plain-interface", gated=False)
    record(folder / "plain")
    return {path.name: open_run(path) for path in sorted(folder.iterdir())}


def test_values_are_those_of_the_newest_record_at_or_before_the_step(runs: dict[str, Run]) -> None:
    run = runs["wide"]
    array = outer_state_data([run], OuterStateOptions(step=105)).arrays[run.id]
    assert int(array["step"]) == 100
    np.testing.assert_allclose(array.sel(value="energy"), energy(100, 4))
    np.testing.assert_allclose(array.sel(value="write"), energy(100, 4) - 1)
    np.testing.assert_allclose(array.sel(value="gate_read"), 0.09, rtol=1e-6)
    np.testing.assert_allclose(array.sel(value="gate_read_initial"), 0.1, rtol=1e-6)
    assert float(array["direct"]) == pytest.approx(0.05)


def test_what_a_run_did_not_record_is_nan_and_a_run_without_a_wide_state_is_named(
    runs: dict[str, Run],
) -> None:
    data = outer_state_data([runs["plain-interface"], runs["plain"]], OuterStateOptions())
    assert np.isnan(data.arrays[runs["plain-interface"].id].sel(value="gate_read")).all()
    assert data.absent == {runs["plain"].id: "outer energy was not recorded"}


def test_energies_and_gates_are_drawn_from_those_numbers(runs: dict[str, Run]) -> None:
    data = outer_state_data([runs["wide"]], OuterStateOptions(step=100))
    energies = {
        trace["meta"]["role"]: trace["y"]
        for trace in untyped(outer_state_plotly(data, look=Look(host="page"))["data"])
    }
    np.testing.assert_allclose(energies["energy"], energy(100, 4))
    np.testing.assert_allclose(energies["carry"], 1)
    gates = {
        trace["meta"]["role"]: trace["y"]
        for trace in untyped(outer_state_plotly(data, look=Look(host="page"), part="gates")["data"])
    }
    np.testing.assert_allclose(gates["gate-read"], 0.09, rtol=1e-6)
    np.testing.assert_allclose(gates["initial-write"], 0.1, rtol=1e-6)


def test_history_has_a_row_a_block_and_a_column_a_record(runs: dict[str, Run]) -> None:
    run = runs["wide"]
    data = outer_history_data([run], OuterHistoryOptions())
    drawn = untyped(outer_map_plotly(data, look=Look(host="page"))["data"])[0]["z"]
    np.testing.assert_allclose(drawn, np.stack([energy(step, 4) for step in STEPS], axis=1), rtol=1e-6)
    direct = outer_history_data([run], OuterHistoryOptions(quantity="outer_direct"))
    line = untyped(outer_line_plotly(direct, look=Look(host="page"))["data"])[0]["y"]
    np.testing.assert_allclose(line, [0.1 / (1 + step / 100) for step in STEPS], rtol=1e-6)
    gates = outer_history_data([run], OuterHistoryOptions(quantity="interface_gate")).arrays[run.id]
    assert gates["side"].values.tolist() == ["read", "write"] * 4
    assert gates["block"].values.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_figures_of_a_notebook_draw_the_new_pages_too(runs: dict[str, Run], tmp_path: Path) -> None:
    mixing = open_run(record_mixing(tmp_path / "full"))
    assert len(figure("outer-state", runs["wide"]).data) == 3
    assert {trace.type for trace in figure("depth-attention", mixing).data} == {"heatmap", "bar", "scatter"}
    assert len(figure("skip-paths", mixing).data) == 7
    with pytest.raises(ValueError, match="plain: outer energy was not recorded"):
        figure("outer-state", runs["plain"])


def drawn_map(*paths: Path, end: int | None = None) -> dict[str, Any]:
    data = outer_history_data([open_run(path) for path in paths], OuterHistoryOptions())
    return outer_map_plotly(data, look=Look(host="page"), end=end)


def map_edges(drawn: dict[str, Any]) -> list[list[float]]:
    return [untyped(trace["x"]).tolist() for trace in drawn["data"] if trace["meta"]["role"] == "map"]


def test_no_column_of_a_map_lies_left_of_step_0_or_right_of_the_axis(tmp_path: Path) -> None:
    few = record_outer(tmp_path / "few", steps=(0, 100, 200, 300))
    late = record_outer(tmp_path / "late", steps=(100, 300))
    drawn = drawn_map(few, late)
    assert map_edges(drawn) == [[0, 50, 150, 250, 300], [0, 200, 300]]
    for name in ("xaxis", "xaxis2"):
        assert drawn["layout"][name]["range"] == [0, 300]


def test_a_single_record_is_seen_and_the_rest_of_its_axis_hatched(tmp_path: Path) -> None:
    full, one = record_outer(tmp_path / "full"), record_outer(tmp_path / "one", steps=(0,))
    drawn = drawn_map(full, one)
    assert map_edges(drawn)[1] == pytest.approx([0, 6])
    (hatch,) = [trace for trace in drawn["data"] if trace["meta"]["role"] == "hatch"]
    assert (min(hatch["x"]), max(hatch["x"]), hatch["xaxis"]) == (6, 300, "x2")
    assert map_edges(drawn_map(one)) == [pytest.approx([0, 0.02])]


def test_a_map_reaches_to_the_step_its_run_stands_at_though_the_next_record_is_not_due(
    tmp_path: Path,
) -> None:
    path = record_outer(tmp_path / "live", steps=range(0, 291, 10), losses=range(300))
    drawn = drawn_map(path, end=299)
    assert map_edges(drawn)[0][-1] == 299
    assert drawn["layout"]["meta"]["maps"][0]["last"] == 299, "the cursor's line is drawn up to here"
    assert not [trace for trace in drawn["data"] if trace["meta"]["role"] == "hatch"]


def test_maps_of_different_blocks_have_room_for_their_own_ticks(tmp_path: Path) -> None:
    four, sixty = record_outer(tmp_path / "four"), record_outer(tmp_path / "sixty", blocks=64)
    layout = drawn_map(four, sixty)["layout"]
    assert layout["xaxis2"]["domain"][0] - layout["xaxis"]["domain"][1] == pytest.approx(0.06)
    assert layout["yaxis2"]["tickvals"] == [1, 16, 32, 48, 64]
    alike = drawn_map(four, record_outer(tmp_path / "also"))["layout"]
    assert alike["yaxis2"]["showticklabels"] is False


def test_lines_of_a_run_differ_by_mark_and_lines_of_two_runs_by_dash(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    other = open_run(record_outer(tmp_path / "other"))
    data = outer_state_data([runs["wide"], other], OuterStateOptions())
    for part, roles in (("energy", 3), ("gates", 2)):
        drawn = outer_state_plotly(data, look=Look(host="page"), part=part)["data"]
        lines = [trace for trace in drawn if trace["mode"] == "lines+markers"]
        own = [trace for trace in lines if trace["meta"]["run"] == other.id]
        filled = [trace["marker"]["color"] == trace["line"]["color"] for trace in own]
        assert (
            len({(trace["marker"]["symbol"], full) for trace, full in zip(own, filled, strict=True)}) == roles
        )
        dashes = {trace["meta"]["run"]: trace["line"]["dash"] for trace in lines}
        assert len(set(dashes.values())) == 2


def test_many_blocks_keep_their_lines_visible_between_the_marks(tmp_path: Path) -> None:
    run = open_run(record_outer(tmp_path / "deep", blocks=64))
    data = outer_state_data([run], OuterStateOptions())
    energy_line = outer_state_plotly(data, look=Look(host="page"), part="energy")["data"][0]
    sizes = energy_line["marker"]["size"]
    assert len(sizes) == 64
    assert [block + 1 for block in range(64) if sizes[block]] == list(range(1, 64, 4))
