"""`depthscope export`: writes what the library's function writes, and answers wrong input with what to type."""

from __future__ import annotations

import csv
import json
import os
import stat
import time
from pathlib import Path

import pytest

from depthscope.cli import main
from depthscope.store import open_run
from tests.cli.conftest import Type, write_small
from tests.figures.runs import record


def test_it_writes_figure_numbers_provenance_and_caption_and_says_where(
    typed: Type, runs: Path, tmp_path: Path
) -> None:
    found = typed(
        "export",
        runs,
        "--figure",
        "depth-profile",
        "--quantity",
        "state_rms",
        "--step",
        "15",
        "-o",
        "new/f.pdf",
    )
    assert (found.code, found.err) == (0, "")
    assert found.out.split() == ["new/f.pdf", "new/f.tex", "new/f.csv", "new/f.json"]
    with (tmp_path / "new" / "f.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["step"]) for row in rows] == [("flat", "10")] * 6 + [("steep", "10")] * 6
    assert [float(row["value"]) for row in rows[6:]] == [2 * layer**2 for layer in range(1, 7)]
    told = json.loads((tmp_path / "new" / "f.json").read_text("utf-8"))
    assert told["command"] == (
        f"depthscope export {runs} --figure depth-profile --step 15 --quantity state_rms -o new/f.pdf"
    )


def test_further_options_and_a_baseline(typed: Type, runs: Path, tmp_path: Path) -> None:
    words = (
        "export",
        runs / "flat",
        "--figure",
        "depth-profile",
        "--quantity",
        "state_rms",
        "--mode",
        "difference",
    )
    found = typed(*words, "--baseline", runs / "steep", "--option", "pins=0,10", "--linear", "-o", "f.csv")
    assert (found.code, found.err) == (0, "")
    with (tmp_path / "f.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == "flat"]
    assert [row["step"] for row in rows[::6]] == ["20", "0", "10"]
    assert float(rows[1]["value"]) == pytest.approx(-1)  # log2(2 / 4) at sublayer 2


def test_runs_that_are_left_out_are_named_and_do_not_stop_the_others(
    typed: Type, runs: Path, tmp_path: Path
) -> None:
    write_small(tmp_path / "fresh", records=0)
    words = ("--figure", "depth-map", "--quantity", "state_rms", "-o", "f.svg")
    found = typed("export", runs / "flat", tmp_path / "fresh", *words)
    assert found.code == 0
    assert "fresh is not in the figure: no step is recorded yet" in found.err


DIFFERENCE = ("--quantity", "state_rms", "--mode", "difference")


def test_a_difference_says_which_runs_it_leaves_out_and_why(typed: Type, runs: Path, tmp_path: Path) -> None:
    record(tmp_path / "deep", layers=8, name="deep")
    words = ("export", runs, tmp_path / "deep", *DIFFERENCE, "--baseline", runs / "flat", "-o", "f.csv")
    found = typed(*words, "--figure", "depth-map")
    assert found.code == 0
    assert "deep is not in the figure: has 8 sublayers, the baseline flat has 6" in found.err
    assert "flat is not in the figure: it is the baseline" in found.err
    assert (
        "log2 of the ratio to that of flat" in json.loads((tmp_path / "f.json").read_text("utf-8"))["caption"]
    )
    found = typed(*words, "--figure", "depth-profile", "--quantity", "loss,state_rms")
    assert found.code == 0
    assert "deep is in the figure with its loss only: has 8 sublayers, the baseline flat has 6" in found.err


@pytest.mark.parametrize("figure", ["depth-map", "depth-profile"])
def test_a_difference_of_which_only_the_baseline_is_left_is_an_error(
    figure: str, typed: Type, runs: Path, tmp_path: Path
) -> None:
    record(tmp_path / "deep", layers=8, name="deep")
    words = ("export", runs, *DIFFERENCE, "--figure", figure, "--baseline", tmp_path / "deep", "-o", "f.csv")
    found = typed(*words)
    assert (found.code, found.out) == (1, "")
    assert "flat: has 6 sublayers, the baseline deep has 8" in found.err
    assert not (tmp_path / "f.csv").exists()


def test_the_list_of_figures(typed: Type) -> None:
    found = typed("export", "--list")
    assert found.code == 0
    for name in (
        "depth-profile",
        "depth-map",
        "depth-attention",
        "block-boundaries",
        "skip-paths",
        "outer-state",
    ):
        assert f"\n{name} " in f"\n{found.out}"
    assert "view=mean|spread|uniform|local|difference" in found.out


WRONG = [
    (
        ("--figure", "depth-profil", "-o", "f.pdf"),
        "no figure is called 'depth-profil'; did you mean depth-profile",
    ),
    (("--figure", "depth-map", "--quantity", "state_rsm", "-o", "f.pdf"), "did you mean state_rms"),
    (("--figure", "depth-map", "--quantity", "loss", "-o", "f.pdf"), "loss is over nothing but step"),
    (("--figure", "depth-attention", "-o", "f.pdf"), "flat: the design has no depth attention"),
    (("--figure", "outer-state", "-o", "f.pdf"), "flat: outer energy was not recorded"),
    (("--figure", "depth-map", "-o", "f.docx"), "f.docx ends in .docx; expected one of .pdf"),
    (("--figure", "depth-map", "--width", "3 feet", "-o", "f.pdf"), "expected column or text, or a number"),
    (("--figure", "depth-map", "--mode", "ratios", "-o", "f.pdf"), "did you mean ratio"),
    (
        ("--figure", "depth-map", "--step", "3", "-o", "f.pdf"),
        "depth-map has no option 'step'; it takes quantity",
    ),
    (
        ("--figure", "skip-paths", "--option", "top=many", "-o", "f.pdf"),
        "top is 'many'; expected a whole number",
    ),
    (("--figure", "skip-paths", "--option", "top=-1", "-o", "f.pdf"), "top is -1; expected 1 or more"),
    (
        ("--figure", "skip-paths", "--option", "least_weight=7", "-o", "f.pdf"),
        "least_weight is 7.0; expected 0 to 1",
    ),
    (("--figure", "depth-map", "--option", "columns=0", "-o", "f.pdf"), "columns is 0; expected 1 or more"),
]


@pytest.mark.parametrize(("words", "told"), WRONG, ids=[told for _, told in WRONG])
def test_wrong_input_is_answered_in_words_and_writes_nothing(
    words: tuple[str, ...],
    told: str,
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = "flat: " in told  # the words make sense, and the run has nothing of it
    assert main(["export", str(runs / "flat"), *words]) == (1 if failed else 2)
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ["RUN", "--figure NAME", "-o FILE"])
def test_what_is_missing_is_named(left: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {"RUN": [str(runs)], "--figure NAME": ["--figure", "depth-map"], "-o FILE": ["-o", "f.pdf"]}
    assert main(["export", *(word for name, words in parts.items() if name != left for word in words)]) == 2
    assert f"{left} is missing" in capsys.readouterr().err


def test_paths_that_are_no_run(typed: Type, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    for text, told in (
        (runs / "flatt", f"Did you mean {runs / 'flat'}?"),
        ("empty", "no run at or below empty: the folder is empty"),
        ("notes.txt", "notes.txt is a file"),
    ):
        found = typed("export", text, "--figure", "depth-map", "-o", "f.pdf")
        assert found.code == 2
        assert told in found.err


def test_a_run_of_a_newer_format(typed: Type, tmp_path: Path) -> None:
    path = write_small(tmp_path / "newer")
    record = json.loads((path / "run.json").read_text("utf-8"))
    (path / "run.json").write_text(json.dumps({**record, "format": 99}), "utf-8")
    for text in (path, tmp_path):
        found = typed("export", text, "--figure", "depth-map", "-o", "f.pdf")
        assert found.code == 1
        assert "has format 99; this depthscope reads formats up to 1" in found.err
        assert "pip install -U depthscope" in found.err


def test_places_that_cannot_be_written(typed: Type, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = typed("export", runs, "--figure", "depth-map", "--quantity", "state_rms", "-o", "file/f.pdf")
    assert found.code == 2
    assert "file" in found.err
    assert "Choose another place" in found.err
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    found = typed("export", runs, "--figure", "depth-map", "--quantity", "state_rms", "-o", "closed/f.pdf")
    if os.geteuid() == 0:  # root writes anywhere
        assert found.code == 0
    else:
        assert found.code == 1
        assert "Choose a place that you may write to" in found.err
    closed.chmod(stat.S_IRWXU)


def test_a_place_that_cannot_be_is_named_with_the_command(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("export", str(runs), "--figure", "depth-map", "--quantity", "state_rms")
    assert main([*words, "-o", "/proc/x/f.pdf"]) == 1
    assert "export: /proc/x/f.pdf cannot be written: " in capsys.readouterr().err


def test_a_step_after_the_last_is_answered_with_the_last(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("export", str(runs), "--figure", "depth-profile", "--quantity", "state_rms")
    late = "the last recorded step is 20; it is used"
    file = str(tmp_path / "f.csv")
    assert main([*words, "--step", "99999", "--option", "pins=10,5000", "-o", file]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.partition("no record at step ")[2] for line in told] == [f"99999: {late}", f"5000: {late}"]
    assert main([*words, "--step", "20", "-o", file]) == 0
    assert capsys.readouterr().err == ""


def test_an_option_without_a_value(typed: Type, runs: Path) -> None:
    found = typed("export", runs, "--figure", "depth-map", "--option", "columns", "-o", "f.pdf")
    assert found.code == 2
    assert "--option columns is not of the form KEY=VALUE" in found.err


def test_colours_follow_the_order_of_creation_as_on_the_page(typed: Type, tmp_path: Path) -> None:
    for name in ("zebra", "ant"):
        write_small(tmp_path / name)
        time.sleep(0.01)  # creation is noted to the millisecond
    found = typed(
        "export", "ant", "zebra", "--figure", "depth-profile", "--quantity", "state_rms", "-o", "f.pdf"
    )
    assert found.code == 0, found.err
    slots = json.loads((tmp_path / "f.json").read_text("utf-8"))["drawing"]["slots"]
    assert slots == {open_run(tmp_path / "zebra").id: 1, open_run(tmp_path / "ant").id: 2}
