"""Outer state: energies, gates and the direct path are those recorded; a run without a wide state is named."""

from __future__ import annotations

from pathlib import Path

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
