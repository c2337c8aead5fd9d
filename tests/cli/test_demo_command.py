"""`depthscope demo`: it trains and records what was typed, and refuses what cannot be carried out."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from depthscope.cli import main
from depthscope.cli.options import designs
from depthscope.models import DESIGNS
from depthscope.store import open_run
from tests.cli.conftest import Type

TINY = ("--layers", "4", "--width", "16", "--context", "16", "--batch", "2", "--no-serve")


def test_two_designs_are_trained_recorded_and_can_be_listed(typed: Type, tmp_path: Path) -> None:
    found = typed(
        "demo", "--designs", "prenorm", "block-attnres:S=2", "--steps", "4", "--out", "runs/first", *TINY
    )
    assert found.code == 0, found.err
    listed = typed("ls", "runs").out
    assert "block-attnres-S2" in listed
    run = open_run(tmp_path / "runs" / "first" / "prenorm")
    assert run.status == "finished"
    assert run.config["steps"] == 4
    assert np.isfinite(run["state_rms"].values).all()
    assert "findings" in typed("summary", run.path).out


def test_the_same_folder_again_is_refused_and_keeps_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prenorm").mkdir()
    assert main(["demo", "--designs", "prenorm", "--steps", "1", "--out", str(tmp_path), *TINY]) == 2
    text = capsys.readouterr().err
    assert str(tmp_path / "prenorm") in text
    assert "--out" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--designs", "prenrom"), ["'prenrom'", "prenorm"]),
        (("--designs", "hires:q=2"), ["hires", "'q'"]),
        (("--designs", "prenorm,prenorm"), ["prenorm", "twice"]),
        (("--designs", "block-attnres:boundaries=1,3"), ["joined with +", "boundaries=4+10+16"]),
        (("--designs", "hires:n=2:B=2"), ["commas", "hires:n=2,B=2"]),
        (("--designs", "hires:"), ["'hires:'", "hires:n=2,B=4"]),
        (("--designs", "hires:n=1e9"), ["n=1e+09", "at most 1000"]),
        (("--designs", "altup:K=3"), ["K=3", "1 to 2"]),
        (("--layers", "5"), ["layers=5", "6"]),
        (("--device", "cuda:77"), ["cuda:77"]),
    ],
)
def test_options_that_cannot_be_carried_out_leave_nothing_behind(
    words: tuple[str, ...], told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["demo", "--steps", "1", "--out", str(out), *TINY, *words]) == 2
    text = capsys.readouterr().err
    for part in told:
        assert part in text
    assert not out.exists()


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_file_in_the_way_is_named(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").touch()
    out = tmp_path / place
    assert main(["demo", "--designs", "prenorm", "--steps", "1", "--out", str(out), *TINY]) == 2
    assert str(tmp_path / "taken") in capsys.readouterr().err


def test_designs_are_read_from_words_and_from_comma_separated_lists() -> None:
    assert designs(["prenorm", "hires:n=2,B=4"]) == ("prenorm", "hires:n=2,B=4")
    assert designs(["prenorm,hires:n=2,B=4,block-attnres:S=3"]) == (
        "prenorm",
        "hires:n=2,B=4",
        "block-attnres:S=3",
    )
    assert designs([" prenorm , full-attnres,"]) == ("prenorm", "full-attnres")
    assert designs(["block-attnres:boundaries=1,3,hires"]) == ("block-attnres:boundaries=1,3", "hires")


@pytest.mark.parametrize("words", [("?",), ("prenorm,?",)])
def test_a_question_mark_lists_every_design_with_every_option(
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--designs", *words]) == 0
    told = capsys.readouterr()
    assert not told.err
    assert "hires:n=2,B=4" in told.out
    for design in DESIGNS.values():
        part = told.out.partition(f"\n{design.name} ")[2]
        assert part.strip().startswith(design.label)
        # Up to the next design: names stand at the beginning of a line, options are indented.
        lines = part.split("\n")
        options = " ".join(takewhile(lambda line: line.startswith(" "), lines[1:]))
        options = " ".join(options.split())
        assert options == "; ".join(option.example for option in design.options.values())
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_made_is_named_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--designs", "prenorm", "--steps", "1", "--out", "/proc/x", *TINY]) == 1
    assert "demo: /proc/x cannot be written: " in capsys.readouterr().err
