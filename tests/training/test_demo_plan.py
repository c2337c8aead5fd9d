"""What the demo checks before it creates anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from depthscope.training import CPU_SIZE, CUDA_SIZE, DemoError, DemoOptions
from depthscope.training.demo_plan import make_root, prepare, run_names


def test_the_default_is_the_four_designs_at_the_size_of_the_machine():
    options = DemoOptions()
    assert options.designs == ("prenorm", "full-attnres", "block-attnres", "hires")
    small, large = options.decoder(CPU_SIZE), options.decoder(CUDA_SIZE)
    assert (small.width, small.layers) == (64, 24)
    assert large.width >= 512
    assert large.layers >= 32
    assert options.training(CPU_SIZE).steps == 300
    schedule = options.training(CPU_SIZE).schedule
    assert (schedule.warmup, schedule.decay_start, schedule.total) == (30, 240, 300)


def test_default_designs_have_the_documented_blocks():
    models, _ = prepare(DemoOptions(), "cpu")
    assert [model.residual.design for model in models] == [
        "prenorm", "full-attnres", "block-attnres:S=6", "hires:n=2,B=4",
    ]  # fmt: skip


def test_experts_take_the_place_of_every_mlp():
    models, _ = prepare(DemoOptions(designs=("mhc:n=2",), layers=4, width=16, experts=3), "cpu")
    mlps = [layer.sublayer for layer in models[0].layers][1::2]
    assert [(len(mlp.experts), mlp.active) for mlp in mlps] == [(3, 2), (3, 2)]


def test_a_run_is_called_by_its_design():
    assert run_names(("prenorm", "block-attnres:S=4", "hires:n=1.5, boundaries=4+10")) == [
        "prenorm", "block-attnres-S4", "hires-n1.5-boundaries4-10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"designs": ()}, "no design is given.*--designs"),
        ({"designs": ("prenorm", "prenorm")}, "'prenorm' is given twice"),
        ({"designs": ("plainnorm",)}, "unknown design 'plainnorm'.*prenorm, full-attnres"),
        ({"steps": 0}, "steps=0"),
        ({"layers": 7}, "layers=7.*even"),
        ({"layers": 6, "designs": ("hires:B=4",)}, "4 residual blocks.*3 transformer blocks"),
    ],
)
def test_wrong_options_are_told_before_anything_is_made(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = DemoOptions(**options)
    with pytest.raises(DemoError, match=words):
        run_names(options.designs), prepare(options, "cpu")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_cuda_device_says_what_to_type(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DemoError, match=r"'cuda:0'.*--device cpu"):
        prepare(DemoOptions(), "cuda:0")


def test_without_out_each_demo_has_a_new_dated_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [make_root(None, ["prenorm"]) for _ in range(3)]
    assert len(set(made)) == 3
    assert all(root.is_dir() and root.parent == Path("demo-runs") for root in made)


def test_out_may_hold_other_runs_but_not_these(tmp_path):
    (tmp_path / "hires").mkdir()
    assert make_root(tmp_path, ["prenorm"]) == tmp_path
    with pytest.raises(DemoError, match=f"{tmp_path}/hires exists already.*--out"):
        make_root(tmp_path, ["prenorm", "hires"])


def test_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DemoError, match=r"file is a file.*--out"):
        make_root(tmp_path / "file", ["prenorm"])
