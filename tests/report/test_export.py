"""Export: what lies beside a figure, the same bytes for the same inputs, and nothing written when it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import depthscope
from depthscope.figures import FIGURES, PAPER_FIGURES
from depthscope.report import export, figures_for_paper
from depthscope.store import Run
from tests.figures.runs import state

Runs = dict[str, Run]
ROOT = Path(depthscope.__file__).parents[1]


def test_numbers_provenance_and_caption_lie_beside_the_figure(runs: Runs, tmp_path: Path) -> None:
    written = export(
        "depth-profile", [runs["prenorm"], runs["block"]], tmp_path / "new" / "fig.pdf", step=100
    )
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "fig.csv",
        "fig.json",
        "fig.pdf",
        "fig.tex",
    ]
    assert sorted(path.name for path in written.beside) == ["fig.csv", "fig.json", "fig.tex"]
    told = json.loads((tmp_path / "new" / "fig.json").read_text("utf-8"))
    assert told["figure"] == "depth-profile"
    assert told["command"] == "depthscope.export('depth-profile', runs, 'fig.pdf', width='column', step=100)"
    assert [run["id"] for run in told["runs"]] == [runs["prenorm"].id, runs["block"].id]
    assert told["runs"][0]["seed"] == 1
    assert told["panels"]["state_logrms"]["rows"][runs["block"].id] == {"steps": [100], "level": "every row"}
    assert told["panels"]["state_logrms"]["definition"]["formula"] == "mean_t log(||s_l|| / sqrt(d))"
    assert set(told["versions"]) >= {"depthscope", "matplotlib", "numpy"}


def test_binned_columns_are_told(runs: Runs, tmp_path: Path) -> None:
    export("depth-map", runs["prenorm"], tmp_path / "f.csv", columns=10)
    told = json.loads((tmp_path / "f.json").read_text("utf-8"))
    (found,) = told["panels"]["depth-map"]["rows"].values()
    assert found["level"] == "means over bins of rows"
    assert found["columns"] <= 10


def test_runs_that_a_figure_does_not_fit_are_left_out_with_the_reason(runs: Runs, tmp_path: Path) -> None:
    written = export("depth-attention", list(runs.values()), tmp_path / "f.svg")
    assert set(written.left_out) == {"prenorm", "block", "wide", "apart"}
    assert all("not recorded" in reason for reason in written.left_out.values())


@pytest.mark.parametrize("form", ["pdf", "svg", "png", "html", "csv"])
def test_two_exports_are_the_same_bytes(form: str, runs: Runs, recorded: Path, tmp_path: Path) -> None:
    """The second is made by another process, with another hash seed and time zone."""
    names = [name for name in PAPER_FIGURES if form != "html" or name in FIGURES]
    script = (
        "import sys, depthscope; runs = [depthscope.open(path) for path in sys.argv[2:]]\n"
        f"for name in {names}: depthscope.export(name, runs, f'{{sys.argv[1]}}/{{name}}.{form}')"
    )
    for name in names:
        export(name, list(runs.values()), tmp_path / "here" / f"{name}.{form}")
    more = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "86400"}
    paths = [str(recorded / name) for name in runs]
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "there"), *paths],
        check=True,
        timeout=120,
        env={**os.environ, **more},
    )
    made = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert made == sorted(path.name for path in (tmp_path / "there").iterdir())
    for file in made:
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes(), file


def test_a_page_stands_alone(runs: Runs, tmp_path: Path) -> None:
    export("depth-profile", [runs["prenorm"]], tmp_path / "f.html")
    text = (tmp_path / "f.html").read_text("utf-8")
    assert '"showSendToCloud": false' in text
    assert "<script src" not in text
    outside_scripts = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "http" not in outside_scripts
    assert text.count("Plotly.newPlot(") == 3
    assert "validation loss, state and gradient over depth" in text.lower()
    assert not (tmp_path / "f.tex").exists()


@pytest.mark.browser
def test_a_page_draws_the_numbers_and_asks_nothing_of_the_network(runs: Runs, tmp_path: Path) -> None:
    export("depth-profile", [runs["prenorm"]], tmp_path / "f.html", quantity="state_rms", step=100)
    command = [sys.executable, "-m", "tests.report.open_page", str(tmp_path / "f.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=ROOT)
    seen = json.loads(done.stdout)
    if seen is None:
        message = "no Chromium: install Debian's package chromium, or run `playwright install chromium`"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    assert seen["errors"] == []
    assert seen["requests"] == [(tmp_path / "f.html").as_uri()]
    assert not [title for title in seen["buttons"] if "share" in title.lower() or "cloud" in title.lower()]
    assert seen["values"] == [pytest.approx(state(100, 8).tolist())]


def test_run_names_are_text_in_a_page(tmp_path: Path) -> None:
    from depthscope.store import open_run
    from tests.figures.runs import record

    run = open_run(record(tmp_path / "run", name="<script>alert(1)</script>"))
    export("depth-profile", run, tmp_path / "f.html")
    assert "<script>alert" not in (tmp_path / "f.html").read_text("utf-8")


def test_a_failed_export_leaves_nothing(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        export("outer-state", runs["prenorm"], tmp_path / "f.pdf")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        export("depth-profile", runs["prenorm"], tmp_path / "file" / "f.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_no_figure_needs_a_browser_or_the_app(runs: Runs, recorded: Path, tmp_path: Path) -> None:
    script = (
        "import sys, depthscope\n"
        "depthscope.export('depth-profile', depthscope.open(sys.argv[1]), sys.argv[2])\n"
        "print([name for name in ('torch', 'dash', 'kaleido', 'playwright', 'matplotlib.pyplot') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(recorded / "prenorm"), str(tmp_path / "f.pdf")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "[]"


def test_without_matplotlib_the_error_says_what_to_install(recorded: Path, tmp_path: Path) -> None:
    script = (
        "import sys, depthscope; sys.modules['matplotlib'] = None\n"
        "run = depthscope.open(sys.argv[1])\n"
        "depthscope.export('depth-profile', run, sys.argv[2] + '/f.csv')\n"
        "depthscope.export('depth-profile', run, sys.argv[2] + '/f.html')\n"
        "try: depthscope.export('depth-profile', run, sys.argv[2] + '/f.pdf')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(recorded / "prenorm"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "pip install 'depthscope[report]'" in done.stdout


def test_every_paper_figure_says_what_it_shows() -> None:
    assert list(figures_for_paper()) == list(PAPER_FIGURES)
    assert all(figures_for_paper().values())
