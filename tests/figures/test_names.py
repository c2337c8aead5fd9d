"""Run names: runs of one name are told apart by the shortest part of their folders that does it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from depthscope.figures import figure, shortened, told_apart, unambiguous
from depthscope.report import export
from depthscope.store import open_run
from tests.figures.runs import record


def shown(*folders: str) -> list[str]:
    """The names of runs that are all called prenorm."""
    return unambiguous([("prenorm", folder.split("/")) for folder in folders])


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["runs/a/prenorm"], ["prenorm"]),
        (["runs/monday/prenorm", "runs/tuesday/prenorm"], ["prenorm (monday)", "prenorm (tuesday)"]),
        (["runs/first", "runs/second"], ["prenorm (first)", "prenorm (second)"]),
        (["runs/prenorm", "runs/old/prenorm"], ["prenorm (runs)", "prenorm (old)"]),
        (
            ["d/2026-11-30_10-12-05/prenorm", "d/2026-11-30_10-15-33/prenorm"],
            ["prenorm (10-12-05)", "prenorm (10-15-33)"],
        ),
        (
            ["d/2026-11-29_10-12-05/prenorm", "d/2026-11-30_10-12-05/prenorm"],
            ["prenorm (2026-11-29)", "prenorm (2026-11-30)"],
        ),
        (
            ["d/2026-11-29_10/prenorm", "d/2026-11-30_10/prenorm", "d/2026-11-30_11/prenorm"],
            ["prenorm (2026-11-29_10)", "prenorm (2026-11-30_10)", "prenorm (2026-11-30_11)"],
        ),
        (
            ["r/a/x/prenorm", "r/a/y/prenorm", "r/b/x/prenorm"],
            ["prenorm (a/x)", "prenorm (a/y)", "prenorm (b/x)"],
        ),
        (["r/a/prenorm", "r/a/prenorm"], ["prenorm", "prenorm"]),
    ],
    ids=lambda value: value[0],
)
def test_the_innermost_differing_folder_is_named(folders: list[str], names: list[str]) -> None:
    assert shown(*folders) == names


def test_a_name_that_somebody_typed_is_never_given_to_another_run() -> None:
    runs = [("a (x)", ["r", "z"]), ("a", ["r", "x", "a"]), ("a", ["r", "y", "a"])]
    assert unambiguous(runs) == ["a (x)", "a (x) #2", "a (y)"]


def test_what_tells_runs_apart_survives_shortening() -> None:
    assert shortened("block-attnres-wide (10-12-05)", 24) == "block-at…wide (10-12-05)"
    assert shortened("block-attnres-lr-9e-3 (sweep-0)", 24) == "block-att…9e-3 (sweep-0)"
    assert shortened("a-name-without-any-brackets", 12) == "a-name-…kets"


def test_every_figure_and_every_exported_file_has_the_names_told_apart(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        record(tmp_path / day / "prenorm")
    runs = [open_run(tmp_path / day / "prenorm") for day in ("monday", "tuesday")]
    names = ["prenorm (monday)", "prenorm (tuesday)"]
    assert [run.name for run in told_apart(runs)] == names
    assert [run.recorded_name for run in told_apart(runs)] == ["prenorm", "prenorm"]
    assert {trace.name for trace in figure("loss", runs).data} >= set(names)
    export("depth-profile", runs, tmp_path / "f.pdf")
    table = csv.DictReader(io.StringIO((tmp_path / "f.csv").read_text()))
    assert sorted({row["run"] for row in table}) == names
    caption = (tmp_path / "f.tex").read_text()
    assert all(name in caption for name in names)
    export("depth-profile", runs, tmp_path / "f.svg")
    assert all(name in (tmp_path / "f.svg").read_text() for name in names)
