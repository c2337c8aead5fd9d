"""The finding about effects: whether the widest paths are the costliest, by counts known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from depthscope.analysis import Finding, findings
from depthscope.store import Run, open_run
from tests.analysis.sweeps import write_sweep
from tests.figures.mixing_runs import mixing_outline, record_mixing, weight

LAYOUT = mixing_outline(8)


def cut(
    run: Run, effect: Callable[[int, int], float], *, name: str = "a", step: int = 300, half: float = 0.0
) -> None:
    """Write two batches whose mean is effect(sources of the target, source), `half` away from it each."""
    change = np.full((9, 9, 2), np.nan)
    for target, columns in enumerate(LAYOUT.sources):
        for source in columns if len(columns) > 1 else ():
            change[target, source] = effect(len(columns), source) + half * np.array([-1, 1])
    write_sweep(run.path, name, step, change, layout=LAYOUT, mode="renormalise")


def found(run: Run, step: int | None = None) -> list[Finding]:
    return [each for each in findings(run, step=step) if each.kind == "path_effect"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """33 paths of distance 2 or more in reads of 4 to 9 sources; the widest 8 are 6 from the embedding, 2 of target 4."""
    return open_run(record_mixing(tmp_path / "full"))


def test_where_effects_go_with_weights_the_widest_are_the_costliest(run: Run) -> None:
    assert found(run) == []
    cut(run, lambda sources, source: float(weight(300, sources)[source]))
    (one,) = found(run)
    assert one.text == (
        "8 of the 8 widest skip paths are among the 8 costliest to cut; "
        "rank correlation of weight and effect +1.00 over 33 paths of reads with 4 sources or more."
    )
    assert (one.page, one.step) == ("paths", 300)


def test_where_they_go_the_other_way_it_says_so_and_how_many_cost_nothing(run: Run) -> None:
    # t of one degree of freedom times half the difference of the two batches: 12.7 times 0.1 holds all of them.
    cut(run, lambda sources, source: -float(weight(300, sources)[source]), half=0.1)
    (one,) = found(run)
    assert one.text.startswith(
        "only 0 of the 8 widest skip paths are among the 8 costliest to cut; "
        "rank correlation of weight and effect -1.00"
    )
    assert one.values["free"] == 8
    assert "Of the widest, 8 show no cost: 0 lies within the 95 % interval of their effect" in one.detail
    assert "beside weights" not in one.detail


def test_weights_of_another_step_than_the_effects_are_told(run: Run) -> None:
    cut(run, lambda sources, source: float(source), step=306)
    assert found(run)[0].detail.endswith("in the sweep a; effect of step 306 beside weights of step 300.")


def test_half_is_not_called_only(run: Run) -> None:
    """Of the widest only those of targets 4 and 5 and of the final read cost; four paths from elsewhere cost as much."""

    def effect(sources: int, source: int) -> float:
        if source == 0:
            return 1.0 if sources in (4, 5, 6, 9) else 0.0
        return 2.0 if sources == 9 and source in (1, 2, 3, 4) else 0.0

    cut(run, effect)
    assert found(run)[0].text.startswith("4 of the 8 widest skip paths are among the 8 costliest to cut;")


def test_a_run_looked_at_up_to_a_step_has_the_sweeps_up_to_it(run: Run) -> None:
    cut(run, lambda sources, source: float(source), name="late", step=300)
    assert found(run, step=290) == []
    cut(run, lambda sources, source: float(source), name="early", step=200)
    assert [each.step for each in found(run, step=290)] == [200]


def test_few_paths_and_a_damaged_sweep_take_no_other_finding_with_them(run: Run, tmp_path: Path) -> None:
    others = [each.kind for each in findings(run)]
    cut(run, lambda sources, source: 1.0)
    (run.path / "causal" / "a.zarr" / "loss_change" / "c.3.0.0").write_bytes(b"no chunk")
    assert [each.kind for each in findings(run)] == others
    small = open_run(record_mixing(tmp_path / "small", layers=4))
    change = np.where(np.tril(np.ones((5, 5)))[:, :, None] > 0, 1.0, np.full((5, 5, 2), np.nan))
    write_sweep(small.path, "a", 300, change, layout=mixing_outline(4))
    assert found(small) == [], "7 paths are too few"
