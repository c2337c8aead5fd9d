"""Wrong inputs: each error says what was found, what was expected, and suggests what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthscope.report import ExportError, export, inches
from depthscope.store import Run

Runs = dict[str, Run]


def test_an_unknown_figure_is_answered_with_the_closest(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="did you mean 'depth-profile'"):
        export("depth-profil", runs["prenorm"], tmp_path / "f.pdf")


@pytest.mark.parametrize(
    ("quantity", "error", "told"),
    [
        ("stat_rms", KeyError, "did you mean state_rms"),
        ("loss", ValueError, "loss is over nothing but step"),
        ("depth_attention", ValueError, "depth_attention is over target, source"),
        ("angle", KeyError, "no quantity is called 'angle'"),
    ],
)
def test_quantities_that_a_profile_cannot_show(
    quantity: str, error: type[Exception], told: str, runs: Runs, tmp_path: Path
) -> None:
    with pytest.raises(error, match=told):
        export("depth-profile", runs["prenorm"], tmp_path / "f.pdf", quantity=quantity)


def test_a_figure_that_fits_no_run_gives_each_run_s_reason(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'outer-state' has nothing to draw") as error:
        export("outer-state", [runs["prenorm"], runs["block"]], tmp_path / "f.pdf")
    assert "prenorm: outer energy was not recorded" in str(error.value)
    assert "block: outer energy was not recorded" in str(error.value)


def test_a_step_before_the_first_record(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prenorm: no record at or before step -1"):
        export("depth-profile", runs["prenorm"], tmp_path / "f.pdf", quantity="state_rms", step=-1)


def test_no_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no runs were given"):
        export("depth-profile", [], tmp_path / "f.pdf")


def test_an_unknown_option_lists_the_known(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no option 'stepp'; it takes quantity, mode, step"):
        export("depth-profile", runs["prenorm"], tmp_path / "f.pdf", stepp=1)


def test_endings_that_are_no_format(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"ends in .docx; expected one of .pdf, .svg, .png, .html, .csv"):
        export("depth-profile", runs["prenorm"], tmp_path / "f.docx")
    with pytest.raises(ExportError, match="has no ending"):
        export("depth-profile", runs["prenorm"], tmp_path / "figure")


def test_a_folder_in_place_of_a_file(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "f.pdf").mkdir()
    with pytest.raises(ExportError, match="is a folder"):
        export("depth-profile", runs["prenorm"], tmp_path / "f.pdf")


def test_widths() -> None:
    assert inches("column") == 3.25
    assert inches("text") == 6.75
    assert inches("8.255cm") == pytest.approx(3.25)
    assert inches("234pt") == pytest.approx(3.238, abs=1e-3)  # TeX's point is 1/72.27 inch
    assert inches(5) == 5
    for wrong in ("wide", "3 furlongs", "", "nanin"):
        with pytest.raises(ExportError, match="expected column or text, or a number"):
            inches(wrong)
    for wrong in ("1in", "9m" + "m", 100):
        with pytest.raises(ExportError, match="expected 2 to 20 inches"):
            inches(wrong)


def test_a_scale_that_does_not_exist(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="expected one of shared, full, own"):
        export("depth-map", runs["prenorm"], tmp_path / "f.pdf", scale="mine")  # type: ignore[arg-type]
