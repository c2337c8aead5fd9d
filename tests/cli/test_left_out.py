"""One damaged or newer run in a folder: export and compare go on with the rest; one that is named itself fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from depthscope.cli import main
from tests.cli.conftest import write_small

EXPORT = ("--figure", "depth-map", "--quantity", "state_rms", "-o")
Told = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the runs flat, steep, newer (a format of the future) and damaged (one chunk)."""
    write_small(tmp_path / "flat")
    write_small(tmp_path / "steep", growth=2.0)
    record = write_small(tmp_path / "newer") / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text("utf-8")), "format": 99}), "utf-8")
    state = write_small(tmp_path / "damaged") / "rank00000" / "data.zarr" / "fast" / "state_rms"
    for chunk in state.glob("c.*"):
        chunk.write_bytes(b"not a chunk")
    return tmp_path


def test_export_goes_on_with_the_rest(folder: Path, capsys: Told) -> None:
    assert main(["export", str(folder), *EXPORT, str(folder / "f.csv")]) == 0
    told = capsys.readouterr().err
    assert f"export: left out: {folder / 'newer'} has format 99" in told
    assert "export: damaged is not in the figure: cannot be read" in told
    rows = (folder / "f.csv").read_text("utf-8").splitlines()[1:]
    assert {row.split(",")[1] for row in rows} == {"flat", "steep"}


def test_compare_goes_on_with_the_rest(folder: Path, capsys: Told) -> None:
    assert main(["compare", str(folder)]) == 0
    found = capsys.readouterr()
    assert f"compare: left out: {folder / 'newer'} has format 99" in found.err
    assert f"compare: left out: the run {folder / 'damaged'} is damaged" in found.err
    assert "steep against flat" in found.out
    assert "damaged" not in found.out


def test_a_run_that_is_named_itself_fails(folder: Path, capsys: Told) -> None:
    whole = [str(folder / "flat"), str(folder / "steep")]
    assert main(["export", *whole, str(folder / "newer"), *EXPORT, str(folder / "f.csv")]) == 1
    assert main(["compare", *whole, str(folder / "newer")]) == 1
    assert main(["compare", *whole, str(folder / "damaged")]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert "left out" not in found.err


def test_a_folder_of_which_no_run_is_left_fails(folder: Path, capsys: Told) -> None:
    (folder / "only").mkdir()
    (folder / "newer").rename(folder / "only" / "newer")
    assert main(["export", str(folder / "only"), *EXPORT, str(folder / "f.csv")]) == 1
    assert "has format 99" in capsys.readouterr().err
