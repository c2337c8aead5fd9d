"""Export from a page: the archive holds the figure that the command line writes, byte for byte."""

from __future__ import annotations

import csv
import io
import json
import shlex
import zipfile
from pathlib import Path

import pytest

from depthscope.cli import main
from depthscope.report import export
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import record_mixing, record_outer
from tests.figures.origin_runs import record_origins
from tests.figures.runs import record

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    record(folder / "plain")
    record_mixing(folder / "blocks", block=4)
    record_mixing(folder / "full")
    record_outer(folder / "wide")
    record_origins(folder / "taken-apart")
    return folder


@pytest.fixture(scope="module")
def place(kinds: Path, serve_session: Serve) -> str:
    return serve_session(kinds)


def saved(page: AppPage, form: str) -> zipfile.ZipFile:
    page.page.locator("#export-button").click()
    page.page.locator('select[data-name="form"]').select_option(form)
    with page.page.expect_download() as download:
        page.page.locator('[data-action="save-export"]').click()
    return zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes()))


def test_the_archive_holds_figure_numbers_caption_and_provenance(
    page: AppPage, place: str, kinds: Path, tmp_path: Path
) -> None:
    page.open(f"{place}attention?step=100")
    archive = saved(page, "pdf")
    assert archive.namelist() == [f"depth-attention.{form}" for form in ("csv", "json", "pdf", "tex")]
    runs = [open_run(kinds / name) for name in ("blocks", "full")]
    export("depth-attention", runs, tmp_path / "depth-attention.pdf", step=100)
    ours = list(csv.reader(io.StringIO(archive.read("depth-attention.csv").decode())))
    theirs = list(csv.reader(io.StringIO((tmp_path / "depth-attention.csv").read_text())))
    assert ours == theirs
    assert archive.read("depth-attention.pdf").startswith(b"%PDF")
    told = archive.read("depth-attention.json").decode()
    assert json.loads(told)["command"].startswith("depthscope export ")
    assert str(kinds) not in told, "paths stay on the server"


@pytest.mark.parametrize(
    ("path", "figure"),
    [
        ("depth", "depth-profile"),
        ("boundaries", "block-boundaries"),
        ("paths", "skip-paths"),
        ("mixing", "mixing"),
        ("outer", "outer-state"),
    ],
)
def test_every_page_with_a_figure_exports_it(page: AppPage, place: str, path: str, figure: str) -> None:
    page.open(f"{place}{path}?step=300")
    assert f"{figure}.csv" in saved(page, "csv").namelist()


def test_a_page_without_a_figure_says_so(page: AppPage, place: str) -> None:
    page.open(place)
    button = page.page.locator("#export-button")
    assert button.get_attribute("aria-disabled") == "true"
    page.page.keyboard.press("e")
    assert not page.page.locator("#export").is_visible()


def test_the_command_names_runs_of_one_name_by_their_folders(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    for day in ("monday", "tuesday"):
        record(tmp_path / day / "prenorm")
    page.open(f"{serve(tmp_path)}depth")
    archive = saved(page, "csv")
    told = json.loads(archive.read("depth-profile.json"))
    assert told["command"].startswith("depthscope export monday/prenorm tuesday/prenorm --figure ")
    rows = csv.DictReader(io.StringIO(archive.read("depth-profile.csv").decode()))
    assert {row["run"] for row in rows} == {"prenorm (monday)", "prenorm (tuesday)"}


def test_the_command_typed_in_the_folder_served_writes_the_same_bytes(
    page: AppPage, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    for day in ("monday", "tuesday"):
        record(runs / day / "prenorm", scale=2.0 if day == "monday" else 1.0)
    page.open(f"{serve(runs)}depth?metric=write_ratio&mode=difference&scale=linear&step=150&pins=50,100")
    archive = saved(page, "pdf")
    command = shlex.split(json.loads(archive.read("depth-profile.json"))["command"])
    monkeypatch.chdir(runs)
    command[command.index("-o") + 1] = str(tmp_path / "depth-profile.pdf")
    assert main(command[1:]) == 0
    for name in ("depth-profile.pdf", "depth-profile.csv", "depth-profile.tex"):
        assert (tmp_path / name).read_bytes() == archive.read(name), name
