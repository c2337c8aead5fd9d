"""`depthscope summary`: the findings and the numbers that are in the store, and errors that help."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Type, write_small
from tests.store.runs import write_with_a_past


def test_the_table_shows_the_stored_numbers_of_the_newest_step(typed: Type, runs: Path) -> None:
    found = typed("summary", runs / "flat")
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    start = lines.index("over depth at step 20")
    assert lines[start + 1].split() == ["layer", "sublayer", "block", "state_rms", "write_rms", "fresh_share"]
    assert lines[start + 2].split() == ["1", "attention", "-", "3", "1", "1"]
    assert lines[start + 7].split() == ["6", "mlp", "-", "18", "1", "0.167"]


def test_it_says_what_the_run_is_what_stands_out_and_what_is_missing_and_why(typed: Type, runs: Path) -> None:
    text = typed("summary", runs / "flat").out
    assert "6 sublayers in 3 transformer blocks" in text
    assert "finished, last step 20" in text
    assert "training 1 at step 20, validation 2.5 at step 20" in text
    assert "model.width: 64" in text
    assert "- state rms grows 3.0× from first to last transformer block. (step 20)" in text
    assert "  depth_attention: the design has no depth attention" in text
    assert "massive_activation: abs_median is not recorded" in text


def test_an_earlier_step_and_another_column(typed: Type, runs: Path) -> None:
    lines = typed("summary", runs / "flat", "--step", "15", "--quantity", "state_rms").out.splitlines()
    start = lines.index("over depth at step 10")
    assert lines[start + 7].split() == ["6", "mlp", "-", "12"]
    wrong = typed("summary", runs / "flat", "--step", "-5")
    assert (wrong.code, "found -5" in wrong.err) == (2, True)


def test_a_baseline_is_set_beside_it(typed: Type, runs: Path) -> None:
    text = typed("summary", runs / "flat", "--baseline", runs / "steep").out
    assert "Baseline steep at step 20: State rms grows 9.0×" in " ".join(text.split())


def test_a_deep_run_shows_evenly_spaced_sublayers(typed: Type, runs: Path) -> None:
    from depthscope.cli.depth_table import shown_layers

    assert shown_layers(6).tolist() == [0, 1, 2, 3, 4, 5]
    many = shown_layers(256)
    assert len(many) == 64
    assert (many[0], many[-1]) == (0, 255)


def test_a_part_of_a_run_stands_for_the_run(typed: Type, runs: Path) -> None:
    assert typed("summary", runs / "flat" / "rank00000" / "data.zarr").out.startswith("run      flat")


def test_a_run_without_rows(typed: Type, tmp_path: Path) -> None:
    found = typed("summary", write_small(tmp_path / "fresh", records=0))
    assert found.code == 0
    assert "no record yet" in found.out
    assert "none yet" in found.out


def test_a_folder_of_runs_is_answered_with_what_to_type(typed: Type, runs: Path) -> None:
    found = typed("summary", runs)
    assert found.code == 2
    assert f"{runs} is no run but holds 2 of them" in found.err
    assert f"depthscope summary {runs / 'steep'}" in found.err


def test_places_that_hold_no_run(typed: Type, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    for text, told in (
        ("missing", "missing does not exist"),
        ("empty", "is empty"),
        ("notes.txt", "notes.txt is a file"),
    ):
        found = typed("summary", text)
        assert found.code == 2
        assert text in found.err
        assert told in found.err


def test_a_damaged_run_is_named(typed: Type, tmp_path: Path) -> None:
    path = write_small(tmp_path / "broken")
    (path / "rank00000" / "data.zarr" / "zarr.json").write_text("no json")
    found = typed("summary", path)
    assert found.code == 1
    assert str(path) in found.err


def test_a_damaged_chunk_is_named_and_the_rest_is_shown(typed: Type, tmp_path: Path) -> None:
    path = write_small(tmp_path / "broken")
    (chunk,) = (path / "rank00000" / "data.zarr" / "fast" / "state_rms").glob("c.*")
    chunk.write_bytes(b"not a chunk")
    found = typed("summary", path)
    assert found.code == 1
    told = f"{path} is damaged: state_rms cannot be read from its file fast/state_rms/{chunk.name}: "
    assert told in found.err
    assert len(found.err.splitlines()) == 1
    lines = found.out.splitlines()
    assert "damaged, and left out below" in lines
    start = lines.index("over depth at step 20")
    assert lines[start + 1].split() == ["layer", "sublayer", "block", "write_rms", "fresh_share"]
    assert lines[start + 7].split() == ["6", "mlp", "-", "1", "0.167"]
    assert "training 1 at step 20, validation 2.5 at step 20" in found.out


def test_a_damaged_baseline_leaves_the_run_s_own_findings(typed: Type, runs: Path, tmp_path: Path) -> None:
    path = write_small(tmp_path / "broken")
    (chunk,) = (path / "rank00000" / "data.zarr" / "fast" / "state_rms").glob("c.*")
    chunk.unlink()
    found = typed("summary", runs / "flat", "--baseline", path)
    assert found.code == 1
    assert "state rms grows 3.0× from first to last transformer block" in found.out
    assert f"{path} is damaged" in found.err


def test_a_baseline_of_the_same_name_is_told_apart(typed: Type, runs: Path, tmp_path: Path) -> None:
    twin = write_small(tmp_path / "tuesday" / "flat", growth=2.0)
    text = typed("summary", runs / "flat", "--baseline", twin).out
    assert text.splitlines()[0] == f"run      flat ({runs.name})"
    assert "Baseline flat (tuesday) at step 20" in " ".join(text.split())


def test_quantities_that_cannot_be_columns(typed: Type, runs: Path) -> None:
    for name, code, told in (
        ("stat_rms", 2, "did you mean state_rms"),
        ("loss", 2, "over nothing but step"),
        ("read_rms", 1, "is not in"),
    ):
        found = typed("summary", runs / "flat", "--quantity", name)
        assert found.code == code
        assert name in found.err
        assert told in found.err


def test_earlier_attempts_and_lost_rows_are_told(typed: Type, runs: Path, tmp_path: Path) -> None:
    lines = typed("summary", write_with_a_past(tmp_path / "past")).out.splitlines()
    start = lines.index("earlier attempts")
    assert lines[start + 1 : start + 5] == [
        "  attempt 1: up to step 50, taken back to step 30",
        "",
        "rows lost",
        "  fast: 5 rows, steps 40 to 44 (No space left on device)",
    ]
    whole = typed("summary", runs / "flat").out
    assert "earlier attempts" not in whole
    assert "rows lost" not in whole
