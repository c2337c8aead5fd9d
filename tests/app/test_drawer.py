"""The drawer: whole names, runs of one name told apart as everywhere, and how many of all are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.runs import record

pytestmark = pytest.mark.browser
NAMES = ["prenorm (monday)", "prenorm (tuesday)"]


def test_runs_of_one_name_are_told_apart_wherever_they_are_named(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    for scale, day in enumerate(("monday", "tuesday"), start=1):
        record(tmp_path / day / "prenorm", scale=float(scale))
    page.open(serve(tmp_path))
    assert page.page.locator(".run-name").all_inner_texts() == NAMES
    assert page.page.locator(".card header strong").all_inner_texts() == NAMES
    assert page.page.locator(".run-findings h3").all_inner_texts() == NAMES
    cells = page.page.locator("#table-summary .run-cell").all_inner_texts()
    assert [cell.strip() for cell in cells] == NAMES
    page.page.get_by_role("link", name="Depth profile").click()
    page.settle()
    labels = page.page.locator("#overlay-profile .end-label").all_text_contents()
    assert sorted(labels) == NAMES
    assert page.page.locator("#overlay-maps .map-title").all_inner_texts() == NAMES
    said = page.page.locator("#findings .sentence strong").all_text_contents()
    assert set(said) == set(NAMES)


def test_a_second_run_of_a_name_renames_the_first_on_the_page(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    record(tmp_path / "monday" / "prenorm")
    page.open(f"{serve(tmp_path)}depth")
    assert page.page.locator(".run-name").all_inner_texts() == ["prenorm"]
    record(tmp_path / "tuesday" / "prenorm")
    page.until(
        """(names) => JSON.stringify([...document.querySelectorAll("#overlay-profile .end-label")]
          .map((label) => label.textContent).sort()) === JSON.stringify(names)""",
        NAMES,
    )


def test_the_drawer_says_that_there_are_more_runs_than_are_shown(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    for number in range(5):
        record(tmp_path / f"run-{number}")
    page.open(serve(tmp_path))
    count = page.page.locator("#runs-count")
    assert count.inner_text() == "4 of 5 shown; select more"
    page.page.locator('[data-action="toggle-run"][aria-checked="false"]').click()
    page.settle()
    assert count.inner_text() == "5 runs, 5 selected"


@pytest.mark.parametrize("width", [1440, 1280])
def test_a_long_name_is_whole_in_its_row(page: AppPage, serve: Serve, tmp_path: Path, width: int) -> None:
    name = "block-attnres-seed-3-lr-2e-3 (2026-11-30 10-12-05)"
    record(tmp_path / "run", name=name)
    page.page.set_viewport_size({"width": width, "height": 720})
    page.open(serve(tmp_path))
    page.page.locator("#drawer").hover()
    label = page.page.locator(".run-name")
    assert (label.inner_text(), label.get_attribute("title")) == (name, name)
    assert label.evaluate("(e) => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]") == [0, 0]


def test_fifty_runs_stay_usable(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    for number in range(50):
        record(tmp_path / f"run-{number:02}", steps=(0, 10), validation=False)
    page.open(f"{serve(tmp_path)}depth")
    assert page.page.locator("[data-row]").count() == 50
    assert page.page.locator("#runs-count").inner_text() == "4 of 50 shown; select more"
    ids = page.ids()
    chosen = [f"run-{number:02}" for number in (0, 10, 20, 30, 40, 49)]
    page.page.evaluate("(ids) => depthscope.change({ runs: ids })", [ids[name] for name in chosen])
    page.settle()
    assert page.state()["runs"] == chosen
    row = page.page.locator('[data-row]:has-text("run-25") [data-action="toggle-run"]')
    row.scroll_into_view_if_needed()
    row.click()
    page.settle()
    assert "run-25" in page.state()["runs"]
    assert page.page.locator("#runs").evaluate("(list) => list.scrollTop") > 0, "the list keeps its place"
