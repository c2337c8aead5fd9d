"""Two, three and four ranks record what one process computes on the global batch, by a reference without a recorder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthscope.store import open_run
from tests.ranks.conftest import FOUR, THREE, TWO
from tests.ranks.expected import compare, row_of
from tests.ranks.launching import ROOT, left_by, torchrun
from tests.ranks.models import batch_of, micro_batch_of, together, trained
from tests.recording.stream_reference import Walked, quantities

OnRanks = Callable[[int], Path]


def scenarios(*names: str) -> list[tuple[int, str]]:
    groups = {2: TWO, 3: THREE, 4: FOUR}
    return [(n, each) for n, group in groups.items() for each in group if each.split("/")[0] in names]


def row(folder: Path, scenario: str, step: int = 0) -> dict[str, Any]:
    rows = left_by(folder, scenario)["rows"]
    return rows["fast"][step] | rows.get("slow", {}).get(step, {})


def expected(design: str, world: int) -> dict[str, Any]:
    return row_of(trained(design), *together([batch_of(rank) for rank in range(world)]))


@pytest.mark.parametrize(("world", "scenario"), scenarios("one_step", "inner", "discarded"))
def test_every_quantity_is_that_of_one_process(world: int, scenario: str, on_ranks: OnRanks) -> None:
    compare(row(on_ranks(world), scenario), expected(scenario.split("/")[1], world))
    assert left_by(on_ranks(world), scenario)["warnings"] == []


def test_every_quantity_of_streams_is_that_of_one_process(two_ranks: Path) -> None:
    scenario = "streams/hc:n=2,dynamic=yes/ddp"
    inputs, _ = together([batch_of(rank) for rank in range(2)])
    wanted = quantities(Walked(trained(scenario.split("/")[1]), inputs))
    del wanted["sinkhorn_residue"]
    found = row(two_ranks, scenario)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


def test_ranks_hold_empty_and_uneven_shards() -> None:
    """What makes the case of three ranks worth running: 2 rows of a weight and 61 of the vocabulary."""
    rows = {len(parameter) for parameter in trained("narrow").parameters()}
    assert 2 in rows
    assert any(count % 3 for count in rows if count > 3)
    assert 1 in {len(parameter) for parameter in trained("hires:B=2,n=2").parameters()}


def test_half_precision_stays_near_it(two_ranks: Path) -> None:
    """bf16 keeps 8 bits: 4 % on norms, and sums of signed terms are left out."""
    found, wanted = row(two_ranks, "mixed/foreign/fsdp"), expected("foreign", 2)
    names = (
        "write_rms",
        "state_rms",
        "grad_write_rms",
        "grad_read_rms",
        "param_grad_norm",
        "grad_norm",
        "loss",
    )
    compare(found, {name: wanted[name] for name in names}, tolerance=0.04)
    assert abs(found["state_rms"] / wanted["state_rms"] - 1).max() > 1e-4


@pytest.mark.parametrize(("world", "scenario"), scenarios("accumulated"))
class TestAccumulation:
    """Two micro-batches a rank, the first without communication."""

    def test_all_micro_batches_of_all_ranks_count(self, world: int, scenario: str, on_ranks: OnRanks) -> None:
        found = row(on_ranks(world), scenario)
        wanted = self._wanted(world, scenario)
        del wanted["loss"]  # the loop gave its last one
        clipped = {name: value for name, value in wanted.items() if name.endswith("grad_norm")}
        coefficient = min(1.0, 0.05 / (float(clipped["grad_norm"]) + 1e-6))
        assert coefficient < 0.5
        wanted |= {name: value * coefficient for name, value in clipped.items()}
        compare(found, wanted)
        compare(found, {"grad_norm_before_clip": clipped["grad_norm"], "clip_coefficient": coefficient})

    def test_before_clip_notes_the_global_norm(self, world: int, scenario: str, on_ranks: OnRanks) -> None:
        found = row(on_ranks(world), scenario, step=1)
        wanted = expected(scenario.split("/")[1], world)
        norm = float(wanted["grad_norm"])
        compare(found, {"grad_norm_before_clip": norm, "grad_norm": 0.05 * norm / (norm + 1e-6)})
        assert found["tokens"] == self._wanted(world, scenario)["loss_tokens"]

    @staticmethod
    def _wanted(world: int, scenario: str) -> dict[str, Any]:
        parts = [micro_batch_of(rank, micro) for rank in range(world) for micro in range(2)]
        return row_of(trained(scenario.split("/")[1]), *together(parts))


@pytest.mark.parametrize("scenario", [each for _, each in scenarios("unchanged")])
def test_training_is_bitwise_the_same(scenario: str, two_ranks: Path) -> None:
    for rank in range(2):
        left = left_by(two_ranks, scenario, rank)
        assert (left["losses"], left["parameters"], left["steps"]) == (True, True, 10)
    assert sorted(left_by(two_ranks, scenario)["rows"]["fast"]) == list(range(10))


def test_what_is_stored_says_over_how_many_ranks(two_ranks: Path) -> None:
    run = open_run(two_ranks / "one_step-prenorm-ddp")
    assert run["grad_write_rms"].attrs["rank_factor"] == 0.5
    assert run["state_rms"].attrs["ranks"] == 2
    assert "rank_factor" not in run["state_rms"].attrs
    np.testing.assert_allclose(run["loss"].values[0], expected("prenorm", 2)["loss"], rtol=1e-6)


def test_the_example_records_on_several_ranks(tmp_path: Path) -> None:
    script = ROOT / "examples" / "ddp_loop.py"
    torchrun(2, str(script), str(tmp_path / "run"), "--steps", "5", "--shard")
    run = open_run(tmp_path / "run")
    assert (run.status, run["grad_norm"].step.values.tolist()) == ("finished", [0, 2, 4])
    np.testing.assert_array_equal(run["loss_tokens"], 8 * 64)
    assert np.isfinite(run["clip_coefficient"]).all()


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_a_probe_batch_is_run_by_all_and_written_once(how: str, two_ranks: Path) -> None:
    design = "block-attnres:S=3"
    left = left_by(two_ranks, f"probed/{design}/{how}")
    assert (left["losses"], left["parameters"]) == (True, True)
    assert left["warnings"] == []
    rows = left["rows"]["probe"]
    assert sorted(rows) == [0, 2]
    wanted = row_of(trained(design), *batch_of(40))
    names = [name for name in wanted if name in rows[0]]
    assert {"state_rms", "fresh_share", "depth_contribution"} <= set(names)
    compare(rows[0], {name: wanted[name] for name in names})
    assert not np.allclose(rows[0]["write_rms"], rows[2]["write_rms"]), "the weights after two updates"
    assert "probe" not in left_by(two_ranks, f"probed/{design}/{how}", rank=1)["rows"]


def test_gathered_parameters_are_given_up_after_the_probe_batch(two_ranks: Path) -> None:
    """Else the root would go on with those from before the update."""
    assert left_by(two_ranks, "probed_before_an_update/foreign/fsdp")["gap"] < 1e-5
