"""`depthscope watch`: alerts of every kind, at the first row that breaks a rule, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from depthscope.analysis import alert_rule
from depthscope.quantities import QUANTITIES
from depthscope.store import ArraySpec, RunWriter, StreamSpec, open_run
from tests.cli.conftest import LAYERS, Type, environment, small_layout


def create(path: Path) -> RunWriter:
    arrays = [
        ArraySpec(name=name, dims=QUANTITIES[name].dims, shape=(LAYERS,))
        for name in ("state_rms", "nonfinite")
    ]
    streams = [StreamSpec(name="fast", arrays=[*arrays, ArraySpec(name="loss")])]
    return RunWriter.create(
        path, name=path.name, config={}, layout=small_layout("prenorm"), streams=streams, fsync=False
    )


def calm(writer: RunWriter, steps: range) -> None:
    for step in steps:
        row = {"loss": 3 - step / 100 + 0.01 * (step % 2), "nonfinite": np.zeros(LAYERS)}
        writer.append("fast", step, {**row, "state_rms": np.arange(1.0, LAYERS + 1)})


INCIDENTS = {
    "nonfinite": (
        {"loss": 2.7, "nonfinite": np.array([0, 0, 7, 7, 7, 7])},
        {"quantity": "nonfinite", "value": 7.0, "layer": 3},
    ),
    "spike": ({"loss": 4.5}, {"quantity": "loss", "value": 4.5, "layer": None}),
    "gain": (
        {"loss": 2.7, "state_rms": np.array([1, 2, 3, 4, 51, 6])},
        {"quantity": "state_rms", "value": 51.0, "limit": 50.0, "layer": 5},
    ),
    "loss>3.2": ({"loss": 3.25}, {"quantity": "loss", "value": 3.25, "limit": 3.2}),
    "state_rms/mean>1e3": (
        {"loss": 2.7, "state_rms": np.full(LAYERS, 2e3)},
        {"quantity": "state_rms", "value": 2000.0, "limit": 1000.0, "layer": None},
    ),
    "state_rms<0.5": (
        {"loss": 2.7, "state_rms": np.array([1, 2, 3, 0.25, 5, 6])},
        {"value": 0.25, "layer": 4},
    ),
}


@pytest.mark.parametrize("rule", INCIDENTS)
def test_the_first_row_that_breaks_a_rule_is_told(typed: Type, tmp_path: Path, rule: str) -> None:
    row, expected = INCIDENTS[rule]
    with create(tmp_path / "run") as writer:
        calm(writer, range(30))
        writer.append("fast", 30, row)
        calm(writer, range(31, 34))
    found = typed("watch", tmp_path, "--once", "--alert", rule)
    assert (found.code, found.err) == (3, "")
    told = json.loads(found.out)
    assert (told["rule"], told["run"], told["step"]) == (rule, "run", 30)
    assert {key: told[key] for key in expected} == expected


def test_a_calm_run_ends_well_under_all_usual_rules(typed: Type, tmp_path: Path) -> None:
    with create(tmp_path / "run") as writer:
        calm(writer, range(200))
    found = typed("watch", tmp_path / "run")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["ended"] == "finished"


def test_a_loss_that_becomes_nan_is_not_finite(tmp_path: Path) -> None:
    with create(tmp_path / "run") as writer:
        calm(writer, range(10))
        writer.append("fast", 10, {"loss": float("nan")})
    alert = alert_rule("nonfinite").first(open_run(tmp_path / "run"), None)
    assert alert is not None
    assert (alert.quantity, alert.step) == ("loss", 10)


def test_a_run_that_was_stopped_is_told_by_the_exit_code(typed: Type, tmp_path: Path) -> None:
    with create(tmp_path / "run") as writer:
        calm(writer, range(3))
        writer.annotate("stopped", "KeyboardInterrupt")
    found = typed("watch", tmp_path / "run")
    assert found.code == 1
    assert json.loads(found.out)["ended"] == "stopped"


def test_a_live_run_is_followed_until_something_goes_wrong(tmp_path: Path) -> None:
    with create(tmp_path / "run") as writer:
        calm(writer, range(20))
        marker = tmp_path / "told.json"
        words = ["watch", str(tmp_path), "--poll", "1", "--alert", "loss>9", "--exec", f"cat > {marker}"]
        with subprocess.Popen(
            [sys.executable, "-m", "depthscope", *words],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        ) as watch:
            calm(writer, range(20, 40))
            writer.append("fast", 40, {"loss": 10.0})
            out, _ = watch.communicate(timeout=120)
    assert watch.returncode == 3
    assert json.loads(out)["step"] == 40
    assert json.loads(marker.read_text()) == json.loads(out)


def test_only_rows_after_the_last_look_count(tmp_path: Path) -> None:
    with create(tmp_path / "run") as writer:
        calm(writer, range(30))
        writer.append("fast", 30, {"loss": 9.0})
        calm(writer, range(31, 40))
        run = open_run(tmp_path / "run")
        for text in ("spike", "loss>5"):
            alert = alert_rule(text).first(run, 29)
            assert alert is not None
            assert alert.step == 30
            assert alert_rule(text).first(run, 30) is None


@pytest.mark.parametrize("rule", ["explodes", "loss=5", "loss>", "loss>five", ">5"])
def test_what_is_no_rule_is_refused(typed: Type, tmp_path: Path, rule: str) -> None:
    create(tmp_path / "run").close()
    found = typed("watch", tmp_path / "run", "--alert", rule)
    assert found.code == 2
    assert repr(rule) in found.err
    assert "nonfinite, spike, gain" in found.err


def test_a_rule_that_no_run_can_answer_is_no_all_clear(typed: Type, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with create(tmp_path / name) as writer:
            calm(writer, range(10))
    found = typed("watch", tmp_path, "--alert", "grad_nrom>5", "--alert", "loss>100")
    assert found.code == 2
    assert found.err.count("has none of grad_nrom: the rule 'grad_nrom>5' was not looked at") == 2
    assert typed("watch", tmp_path, "--alert", "loss>100").code == 0
