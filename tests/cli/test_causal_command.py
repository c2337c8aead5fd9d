"""`depthscope causal`: from a demo's checkpoint, or one of the user's own, to effects beside the run."""

from __future__ import annotations

import io
import shutil
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from depthscope.cli import main
from depthscope.models import Decoder, residual_from_string
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
    where = tmp_path / "run"
    shutil.copytree(run, where, ignore=shutil.ignore_patterns("causal", "checkpoints"))
    words = (where, "--checkpoint", file, "--model", "my_models:build", "--data", "my_models:held_out")
    code, _, err = type_causal(capsys, *words, "--batches", "3", "--kind", "sublayers", "--mode", "mean")
    assert (code, err) == (0, "")
    (sweep,) = list_sweeps(where)
    assert (sweep.name, sweep.step, sweep.read().sizes["batch"]) == ("sublayers-mean-1234", 1234, 3)


def test_a_checkpoint_of_another_run_is_refused_and_nothing_is_kept(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    shutil.copytree(run, where, ignore=shutil.ignore_patterns("causal"))
    newest = newest_checkpoint(run)
    assert newest is not None
    config = restore(torch.load(newest, weights_only=True))[0].config
    for design, layers, told in (
        ("hires:n=2,B=2", 4, f"design: the run {DESIGN}, the model hires:n=2,B=2)"),
        (DESIGN, 6, "sublayers: the run 4, the model 6; depth sources: the run 3, the model 4"),
    ):
        sizes = replace(config, layers=layers)
        other = Decoder(sizes, residual_from_string(design, sizes))
        save_checkpoint(tmp_path / "other.pt", other, step=12)
        code, out, err = type_causal(capsys, where, "--checkpoint", tmp_path / "other.pt", "--batches", "1")
        assert (code, out) == (1, "")
        assert told in err
        assert str(where) in err
    assert list_sweeps(where) == []


def test_a_step_that_the_checkpoint_denies_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "checkpoints" / "step-00000004.pt"
    code, _, err = type_causal(capsys, run, "--checkpoint", file, "--step", "12")
    assert (code, err) == (
        2,
        f"depthscope: causal: --step 12, but {file} says step 4; leave --step out\n",
    )


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return an empty module that the command line can name as `mine`."""
    module = types.ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    return module


def _late_failure() -> Iterator[torch.Tensor]:
    yield torch.zeros(2, 9, dtype=torch.int64)
    raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: None, "the batches are None; expected a list of batches"),
        (lambda: torch.zeros(2, 9, dtype=torch.int64), "the batches are a tensor of shape [2, 9], int64"),
        (lambda: [torch.zeros(2, 1, dtype=torch.int64)], "a batch is a tensor of shape [2, 1], int64"),
        (lambda: [torch.zeros(2, 9)], "a batch is a tensor of shape [2, 9], float32"),
        (lambda: [torch.full((2, 9), 256)], "a token is 256; expected token ids from 0 to 255"),
        (lambda: [torch.full((2, 9), -100)], "no target of a batch counts"),
        (_late_failure, "raised RuntimeError: no more"),
    ],
)
def test_data_that_are_no_batches_are_told_by_their_option(
    run: Path, mine: types.ModuleType, capsys: pytest.CaptureFixture[str], made: Any, told: str
) -> None:
    mine.data = made  # type: ignore[attr-defined]
    code, out, err = type_causal(capsys, run, "--data", "mine:data", "--name", "refused")
    assert (code, out) == (1, "")
    assert "--data 'mine:data'" in err
    assert told in err
    assert "example=" not in err
    assert not (run / "causal" / "refused.zarr").exists()


def test_fewer_batches_than_asked_for_are_told_and_one_has_no_interval(
    run: Path, mine: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.data = lambda: [torch.arange(18).view(2, 9)]  # type: ignore[attr-defined]
    words = (run, "--data", "mine:data", "--name", "few", "--kind", "sublayers")
    code, out, err = type_causal(capsys, *words, "--batches", "2")
    told = "fewer are measured, and of one batch the interval is not known"
    assert (code, err) == (0, f"depthscope: causal: --batches 2, but --data 'mine:data' gives 1: {told}\n")
    assert "nan" not in out
    assert [line.split()[-1] for line in out.splitlines()[1:5]] == ["-"] * 4
    code, _, err = type_causal(capsys, *words)
    assert (code, err) == (0, "")  # nobody asked for more
    code, out, err = type_causal(
        capsys, run, "--data", "mine:data", "--name", "few-sources", "--batches", "1"
    )
    assert (code, err) == (0, "")
    assert "nan" not in out


def test_the_default_mode_typed_goes_on_with_the_default_store(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    shutil.copytree(run, where, ignore=shutil.ignore_patterns("causal"))
    assert type_causal(capsys, where, "--batches", "2")[0] == 0
    chunks = {file: file.stat().st_mtime_ns for file in where.glob("causal/*/loss_change/c.*")}
    assert chunks
    for mode in ("renormalise", "zero"):
        assert type_causal(capsys, where, "--batches", "2", "--mode", mode)[0] == 0
    assert all(file.stat().st_mtime_ns == before for file, before in chunks.items())
    assert sorted(sweep.name for sweep in list_sweeps(where)) == ["sources-5", "sources-zero-5"]
    assert type_causal(capsys, where, "--batches", "1", "--kind", "sublayers", "--mode", "zero")[0] == 0
    assert (where / "causal" / "sublayers-5.zarr").is_dir()
    # A damaged one is told with its place and what to delete.
    path = where / "causal" / "sources-5.zarr"
    (path / "zarr.json").write_text("{")
    code, _, err = type_causal(capsys, where, "--batches", "2")
    assert code == 1
    assert err.startswith(f"depthscope: causal: the sweep {path} is damaged: zarr.json is not JSON")
    assert err.endswith(f"rm -r {path}\n")


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
