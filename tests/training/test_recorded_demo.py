"""The demo as people run it: four designs recorded side by side."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch
from rich.console import Console

from depthscope.recording import Recorder
from depthscope.store import open_run
from depthscope.training import DemoError, DemoOptions, run_demo

DESIGNS = ("prenorm", "full-attnres", "block-attnres:S=2", "hires:n=2,B=2")
TINY = DemoOptions(
    steps=5, designs=DESIGNS, width=16, layers=4, context=16, batch=2, device="cpu", serve=False
)


def demo(out, **changes):
    options = DemoOptions(**{**vars(TINY), "out": out, **changes})
    text = io.StringIO()
    return run_demo(options, Console(file=text, width=100)), text.getvalue()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "runs"
    code, text = demo(out, every_slow=2)
    assert code == 0
    assert f"Runs: {out}" in text
    assert "Page:" not in text
    return out


@pytest.fixture(scope="module")
def runs(root):
    return {path.name: open_run(path) for path in root.iterdir() if path.is_dir()}


def test_each_design_has_a_finished_run_of_its_name(runs):
    assert sorted(runs) == ["block-attnres-S2", "full-attnres", "hires-n2-B2", "prenorm"]
    for run in runs.values():
        assert run.status == "finished"
        assert run.streams["fast"] == 1
        assert run.streams["slow"] == 2
        assert run["loss"].sizes["step"] == 5
        assert np.isfinite(run["state_rms"]).all()


def test_a_run_remembers_how_it_was_trained(runs):
    config = runs["block-attnres-S2"].config
    assert config["design"] == "block-attnres:S=2"
    assert config["kind"] == "AttnRes block"
    assert (config["steps"], config["seed"], config["tokens_per_step"]) == (5, 0, 32)
    assert config["schedule"] == {"warmup": 1, "decay_start": 4, "total": 5}
    assert config["model"]["layers"] == 4
    assert {run.config["corpus"]["digest"] for run in runs.values()} == {config["corpus"]["digest"]}
    json.dumps(config)


def test_validation_losses_stand_at_the_steps_completed_before_them(runs):
    for run in runs.values():
        validation = run["validation"]
        assert validation["step"].values.tolist() == [0, 5]
        assert validation.values[0] == pytest.approx(run["loss"].values[0], abs=0.2)


def test_all_designs_see_the_same_tokens(runs):
    tokens = [run["tokens"].values for run in runs.values()]
    assert all(np.array_equal(t, [0, 32, 64, 96, 128]) for t in tokens)


def test_block_attnres_restarts_its_sum_at_every_block(runs):
    state, write = (runs["block-attnres-S2"][name].values for name in ("state_rms", "write_rms"))
    assert np.allclose(state[:, ::2], write[:, ::2], rtol=1e-6)
    assert (np.abs(state[:, 1::2] / write[:, 1::2] - 1) > 1e-3).all()


def test_a_second_demo_does_not_touch_the_first(root):
    with pytest.raises(DemoError, match="exists already"):
        demo(root)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_recording_changes_no_bit_of_the_training(build, options, tmp_path, design, optimizer):
    from dataclasses import replace

    options = replace(options, optimizer=optimizer)
    plain, recorded = build(design, options=options), build(design, options=options)
    with Recorder(recorded.model, tmp_path / "run", optimizer=recorded.optimizers, every=1) as recorder:
        recorded.recorder = recorder
        losses = [(plain.step(), recorded.step()) for _ in range(20)]
        recorded.validate()
    assert all(torch.equal(a, b) for a, b in losses)
    for one, other in zip(plain.model.parameters(), recorded.model.parameters(), strict=True):
        assert torch.equal(one, other)
