"""`depthscope inspect`: designs, the user's own models, and what is said about anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthscope.cli import main
from tests.cli.conftest import Type

OWN_MODELS = """
import torch
from torch import nn

class Mixing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.one(self.first(x))
        return x + self.two(self.second(x))

class Tower(nn.Module):
    def __init__(self, depth=3, width=8):
        super().__init__()
        self.words = nn.Embedding(11, width)
        self.floors = nn.ModuleList(Mixing(width) for _ in range(depth))
        self.out = nn.Linear(width, 11)

    def forward(self, tokens):
        x = self.words(tokens)
        for floor in self.floors:
            x = floor(x)
        return self.out(x)

def build(): return Tower()
def batch(): return torch.arange(10).reshape(2, 5) % 11
def floats(): return torch.ones(2, 5)
def no_blocks(): return nn.Linear(3, 3)
def number(): return 7
def raises(): raise RuntimeError("no weights at hand")
def needs(width): return Tower(width=width)
ready = Tower()
constant = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_models.py").write_text(OWN_MODELS)
    (tmp_path / "broken_models.py").write_text("import torch\n1 / 0\n")
    (tmp_path / "lacking_models.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_model_of_the_current_folder_is_checked_on_the_example(typed: Type, folder: Path) -> None:
    found = typed("inspect", "own_models:build", "--example", "own_models:batch", cwd=folder)
    assert (found.code, found.err) == (0, "")
    assert "Tower: 6 sublayers" in found.out
    assert "floors.2.two" in found.out


def test_without_an_example_it_says_that_nothing_was_verified(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "own_models:ready"]) == 0
    assert "not verified yet" in capsys.readouterr().out


def test_a_reference_design_is_inspected_by_its_string(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "block-attnres:S=6"]) == 0
    assert "24 sublayers, design block-attnres:S=6" in capsys.readouterr().out


FAILS = (
    "broken_models:build",
    "lacking_models:build",
    "own_models:raises",
    "own_models:needs",
    "own_models:number",
    "own_models:no_blocks",
    "storeys",
    "own_models:floats",
)
"""These name something, and it fails; other words name nothing."""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["blok-attnres:S=6"], ["'blok-attnres:S=6'", "did you mean block-attnres"]),
        (["block-attnres:T=6"], ["'T'", "block-attnres:S=6"]),
        (["prenrom"], ["'prenrom'", "did you mean prenorm"]),
        (["own_models:biuld"], ["'biuld'", "did you mean build"]),
        (["no_such_module:build"], ["no module is called 'no_such_module'", "looked in"]),
        (["own_models:"], ["own_models:", "module:name"]),
        (["broken_models:build"], ["importing broken_models raised ZeroDivisionError", "broken_models.py:2"]),
        (["lacking_models:build"], ["ModuleNotFoundError", "a_module_that_is_not_there"]),
        (["own_models:raises"], ["own_models:raises", "RuntimeError: no weights at hand", "own_models.py:"]),
        (["own_models:needs"], ["own_models:needs", "missing 1 required positional argument"]),
        (["own_models:number"], ["own_models:number", "returned a int", "torch.nn.Module"]),
        (["own_models:constant"], ["own_models:constant", "is a int"]),
        (["own_models:no_blocks"], ["own_models:no_blocks", "blocks"]),
        (["own_models:build", "--blocks", "storeys"], ["storeys", "floors"]),
        (["own_models:build", "--example", "own_models:bach"], ["'bach'", "did you mean batch"]),
        (["own_models:build", "--example", "own_models:floats"], ["own_models:build", "forward"]),
    ],
)
def test_wrong_words_are_named_with_what_to_type(
    words: list[str], told: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", *words]) == (1 if words[-1] in FAILS else 2)
    text = capsys.readouterr().err
    for part in told:
        assert part in text
    assert "Traceback" not in text
