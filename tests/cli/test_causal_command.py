"""`depthscope causal`: from a demo's checkpoint, or one of the user's own, to effects beside the run."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from depthscope.cli import main
from depthscope.models import Decoder
from depthscope.store import list_sweeps, open_run
from depthscope.training import (
    CheckpointError,
    DemoOptions,
    newest_checkpoint,
    restore,
    run_demo,
    save_checkpoint,
)
from tests.cli.conftest import Type, write_small

DESIGN = "block-attnres:S=2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a demo's run with checkpoints after 2, 4 and 5 steps."""
    root = tmp_path_factory.mktemp("demo") / "runs"
    options = DemoOptions(
        designs=(DESIGN,),
        steps=5,
        width=16,
        layers=4,
        context=16,
        batch=2,
        device="cpu",
        serve=False,
        out=root,
        checkpoint_every=2,
    )
    assert run_demo(options, Console(file=io.StringIO())) == 0
    return root / "block-attnres-S2"


def type_causal(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main(["causal", *map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_demo_keeps_checkpoints_where_they_are_due_and_at_its_end(run: Path) -> None:
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert kept == ["step-00000002.pt", "step-00000004.pt", "step-00000005.pt"]
    newest = newest_checkpoint(run)
    assert newest is not None
    model, step = restore(torch.load(newest, weights_only=True))
    assert (step, model.residual.design) == (5, DESIGN)


def test_a_checkpoint_gives_back_every_weight(tmp_path: Path, run: Path) -> None:
    newest = newest_checkpoint(run)
    assert newest is not None
    model, _ = restore(torch.load(newest, weights_only=True))
    save_checkpoint(tmp_path / "a.pt", model, step=7)
    held = torch.load(tmp_path / "a.pt", weights_only=True)
    again, step = restore(held)
    assert step == 7
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    with pytest.raises(CheckpointError, match="does not fit"):
        restore({**held, "model": {}})


def test_the_newest_checkpoint_of_a_demo_needs_nothing_else(run: Path, typed: Type) -> None:
    found = typed("causal", run, "--batches", "2")
    assert found.code == 0, found.err
    assert "Nats a token, positive where the cut hurts, mean of 2 batches" in found.out
    # Rows of a demo belong to steps 0 to 4, and five updates were made when its last checkpoint was written.
    assert "Effect of step 5 beside weights of step" in found.out
    assert "Rank correlation of the effect over" in found.out
    assert "pairs of reads with 2 sources or more: " in found.out
    assert "zero and renormalise agree up to the norm's eps" in found.out
    (sweep,) = [each for each in list_sweeps(run) if each.kind == "sources"]
    assert (sweep.name, sweep.step) == ("sources-5", 5)
    assert sweep.attributes["run"] == open_run(run).id
    assert sweep.attributes["checkpoint"] == "step-00000005.pt"
    data = sweep.read()
    assert data["target_name"].values.tolist() == list(open_run(run).layout.target_names)
    assert data["source_name"].values.tolist() == list(open_run(run).layout.source_names)
    first = next(line for line in found.out.splitlines()[1:])
    assert f"{np.nanmax(data['effect'].values):+.4g}" in first


@pytest.mark.parametrize("kind", ["families", "sublayers", "resets", "lens"])
def test_every_kind_has_a_store_of_its_own(run: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = type_causal(capsys, run, "--kind", kind, "--batches", "1", "--name", f"a-{kind}")
    assert (code, err) == (0, "")
    assert f"Kept in {run / 'causal' / f'a-{kind}.zarr'}" in out
    assert any(each.name == f"a-{kind}" and each.kind == kind for each in list_sweeps(run))


def test_a_checkpoint_of_ones_own_takes_a_model_and_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    newest = newest_checkpoint(run)
    assert newest is not None
    trained, _ = restore(torch.load(newest, weights_only=True))
    file = tmp_path / "own.pt"
    torch.save({"state_dict": trained.state_dict(), "step": 1234}, file)
    mine = types.ModuleType("my_models")

    def build() -> Decoder:
        torch.manual_seed(9)
        return restore(torch.load(newest, weights_only=True))[0].apply(_forget)

    mine.build = build  # type: ignore[attr-defined]
    mine.held_out = lambda: (torch.randint(0, 256, (2, 9)) for _ in range(99))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_models", mine)
    where = write_small(tmp_path / "run")
    words = (where, "--checkpoint", file, "--model", "my_models:build", "--data", "my_models:held_out")
    code, _, err = type_causal(capsys, *words, "--batches", "3", "--kind", "sublayers", "--mode", "mean")
    assert (code, err) == (0, "")
    (sweep,) = list_sweeps(where)
    assert (sweep.name, sweep.step, sweep.read().sizes["batch"]) == ("sublayers-mean-1234", 1234, 3)


def _forget(module: torch.nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        torch.nn.init.normal_(parameter)


def test_what_is_typed_wrong_is_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = write_small(tmp_path / "run")
    code, _, err = type_causal(capsys, bare)
    assert (code, err.startswith(f"depthscope: causal: {bare} keeps no checkpoints")) == (2, True)
    assert "depthscope demo --checkpoint-every 100" in err
    code, _, err = type_causal(capsys, bare, "--checkpoint", tmp_path / "nothing.pt")
    assert (code, "does not exist" in err) == (2, True)
    (tmp_path / "text.pt").write_text("no weights")
    code, _, err = type_causal(capsys, bare, "--checkpoint", tmp_path / "text.pt")
    assert (code, "cannot be read as weights" in err) == (1, True)
    torch.save({"weight": torch.zeros(1)}, tmp_path / "bare.pt")
    code, _, err = type_causal(capsys, bare, "--checkpoint", tmp_path / "bare.pt")
    assert (code, "--model module:factory is needed" in err) == (2, True)
    code, _, err = type_causal(capsys, run, "--kind", "outer")
    assert (code, err) == (1, f"depthscope: causal: {DESIGN}: the design has no outer state\n")
    code, _, err = type_causal(capsys, run, "--device", "abacus")
    assert (code, "--device abacus" in err) == (2, True)
    code, _, err = type_causal(capsys, run, "--name", "../away")
    assert (code, "expected letters, digits" in err) == (2, True)
    code, _, err = type_causal(capsys, run, "--kind", "lens", "--mode", "zero")
    assert (code, "cuts nothing" in err) == (2, True)


def test_a_checkpoint_that_would_run_code_is_not_opened(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"model": Harmful()}, tmp_path / "bad.pt")
    code, _, err = type_causal(capsys, run, "--checkpoint", tmp_path / "bad.pt", "--model", "a:b")
    assert (code, "cannot be read as weights" in err) == (1, True)
    assert not (tmp_path / "ran").exists()


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('it ran')",))


def test_doctor_warns_of_nnsight_in_a_process_that_trains(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nnsight", types.ModuleType("nnsight"))
    assert main(["doctor", "--verify", "tests.testing.setups:plain"]) == 0
    assert "note: nnsight is loaded in this process" in capsys.readouterr().out
