"""`depthscope ls`: what it shows, and what it says about places that hold no run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from depthscope.cli.ls import size_text, started_text
from depthscope.cli.table import Column, plain_table, print_table
from tests.cli.conftest import Type, write_small


def test_a_line_a_run_with_kind_status_steps_and_place(typed: Type, runs: Path) -> None:
    found = typed("ls", runs)
    assert (found.code, found.err) == (0, "")
    head, flat, steep = found.out.splitlines()
    assert head.split() == ["name", "kind", "status", "steps", "last", "step", "size", "started", "path"]
    assert flat.split()[:5] == ["flat", "PreNorm", "finished", "300", "20"]
    assert flat.split()[-1] == str(runs / "flat")
    assert steep.startswith("steep ")


def test_the_usual_folders_are_looked_at_when_none_is_given(typed: Type, tmp_path: Path) -> None:
    write_small(tmp_path / "demo-runs" / "one" / "prenorm")
    assert typed("ls").out.splitlines()[1].split()[-1] == "demo-runs/one/prenorm"


def test_a_run_named_twice_is_shown_once(typed: Type, runs: Path) -> None:
    assert len(typed("ls", runs, runs / "flat").out.splitlines()) == 3


def test_a_run_without_rows_is_shown_without_a_last_step(typed: Type, tmp_path: Path) -> None:
    write_small(tmp_path / "fresh", records=0)
    assert typed("ls", tmp_path).out.splitlines()[1].split()[:5] == [
        "fresh",
        "PreNorm",
        "finished",
        "300",
        "-",
    ]


def test_a_damaged_run_is_named_and_the_others_still_shown(typed: Type, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "copy")
    (tmp_path / "copy" / "flat" / "run.json").write_text("{")
    found = typed("ls", "copy")
    assert found.code == 1
    assert "steep" in found.out
    assert str(tmp_path / "copy" / "flat") in found.err


def test_no_folder_anywhere(typed: Type, tmp_path: Path) -> None:
    found = typed("ls")
    assert found.code == 2
    assert str(tmp_path) in found.err
    assert "depthscope ls FOLDER" in found.err


def test_a_path_that_does_not_exist_names_the_closest(typed: Type, tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    found = typed("ls", "experimints")
    assert found.code == 2
    assert "experimints does not exist" in found.err
    assert "Did you mean experiments?" in found.err


def test_an_empty_folder_and_one_without_runs(typed: Type, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = typed("ls", "empty")
    assert found.code == 2
    assert "at or below empty: the folder is empty" in found.err
    assert "depthscope demo" in found.err
    (tmp_path / "empty" / "notes.txt").touch()
    assert "holds notes.txt" in typed("ls", "empty").err


def test_a_file_is_no_folder_of_runs(typed: Type, tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    found = typed("ls", "model.pt")
    assert found.code == 2
    assert "model.pt is a file" in found.err


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (12_300, "12.3 kB"), (4_560_000, "4.6 MB"), (2e13, "20.0 TB")],
)
def test_sizes_are_decimal(size: int, text: str) -> None:
    assert size_text(size) == text


def test_what_is_no_date_is_shown_as_it_is() -> None:
    assert started_text("yesterday") == "yesterday"
    assert started_text("2026-03-01T12:00:00.000+00:00").startswith("2026-03-01 ")


def test_plain_tables_align_and_cut_nothing() -> None:
    long = "x" * 300
    text = plain_table([Column(title="name"), Column(title="n", right=True)], [["a", "10"], [long, "7"]])
    lines = text.splitlines()
    assert lines[2] == f"{long}   7"
    assert lines[1] == "a" + " " * 301 + "10"


def test_in_a_terminal_names_are_never_read_as_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table([Column(title="name")], [["[bold]lr=3e-4[/bold]"]])
    assert "[bold]lr=3e-4[/bold]" in capsys.readouterr().out
