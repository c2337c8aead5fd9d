"""The Overview in a browser: every finding is a sentence that leads to its page; numbers are the findings'."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthscope.analysis import findings
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import record_mixing, record_outer
from tests.figures.runs import record

pytestmark = pytest.mark.browser
NAMES = ("plain", "full", "shorter", "wide")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    record(folder / "plain", scale=2.0)
    record_mixing(folder / "full")
    record_mixing(folder / "shorter", steps=range(0, 251, 10))
    record_outer(folder / "wide")
    return folder


@pytest.fixture(scope="module")
def place(kinds: Path, serve_session: Serve) -> str:
    return serve_session(kinds)


def test_the_app_opens_with_a_card_for_each_run_and_every_finding_as_a_sentence(
    page: AppPage, place: str, kinds: Path
) -> None:
    page.open(place)
    assert page.page.locator(".card header strong").all_inner_texts() == list(NAMES)
    said = page.page.locator("#table-sentences .words").all_inner_texts()
    base = open_run(kinds / "plain")
    expected = [
        finding.text
        for name in NAMES
        for finding in findings(open_run(kinds / name), None if name == "plain" else base)
    ]
    assert sorted(text.lower() for text in said) == sorted(text.lower() for text in expected)
    assert not page.page.locator(".finding-bar").is_visible()
    assert page.page.locator(".card .spark svg").count() == 1, "one run has a validation loss"
    assert page.colours("#panel-cards") > 20


def test_each_sentence_leads_to_the_page_that_shows_it(page: AppPage, place: str) -> None:
    page.open(place)
    page.page.locator(".finding-line", has_text="gives the embedding a weight").first.get_by_role(
        "button"
    ).click()
    page.settle()
    assert page.page.url.startswith(f"{place}attention?")
    assert page.page.locator("#note-cell-weight").inner_text() == "4 MLP, embedding"
    page.page.go_back()
    page.settle()
    page.page.locator(".finding-line", has_text="State rms grows").first.get_by_role("button").click()
    page.settle()
    assert page.page.url.startswith(f"{place}depth?")
    assert page.title("profile") == "State after each write"


def test_the_table_holds_the_findings_numbers_and_sorts_by_a_column(
    page: AppPage, place: str, kinds: Path
) -> None:
    page.open(place)
    rows = page.page.locator("#table-summary tbody tr")
    assert [row.split("\t")[0].strip() for row in rows.all_inner_texts()] == list(NAMES)
    path = next(f for f in findings(open_run(kinds / "full")) if f.kind == "skip_path")
    cell = rows.nth(1).locator("td").nth(6).inner_text()
    assert cell == f"{path.values['weight']:.2f}, share {path.values['contribution']:.2f}"
    page.page.locator("#table-summary .sort", has_text="skip path").click()
    page.settle()
    assert rows.first.inner_text().startswith("full")
    assert rows.nth(1).inner_text().startswith("shorter"), "its weight had less time to grow"
    assert page.page.locator('#table-summary th[aria-sort="descending"]').inner_text() == "skip path ↓"
    assert "sort=-path" in page.page.url
    page.page.locator("#table-summary .sort", has_text="skip path").click()
    page.settle()
    assert rows.first.inner_text().startswith("shorter")
