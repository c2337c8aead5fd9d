"""The Skip paths page in a browser: the table and the arcs are the analysis's list."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthscope.analysis import list_skip_paths
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import STEPS, record_mixing
from tests.figures.runs import record

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def mixing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    record(folder / "plain")
    record_mixing(folder / "full")
    record_mixing(folder / "early", steps=STEPS[:11])
    return folder


@pytest.fixture(scope="module")
def place(mixing: Path, serve_session: Serve) -> str:
    return serve_session(mixing)


def arcs(page: AppPage) -> int:
    return int(
        page.page.evaluate(
            "() => document.querySelector('#graph-arcs .js-plotly-plot')._fullData.filter((t) => t.meta.role === 'arc').length"
        )
    )


def test_every_path_of_the_analysis_is_a_row_and_an_arc(page: AppPage, place: str, mixing: Path) -> None:
    page.open(f"{place}paths")
    listed = list_skip_paths(open_run(mixing / "full"))
    rows = page.page.locator("#table-paths tbody tr")
    assert rows.count() == len(listed) == 6
    assert arcs(page) == 6
    for place_, path in enumerate(listed):
        cells = rows.nth(place_).locator("td").all_inner_texts()
        far = f"{path.distance} sublayers"
        assert cells[1:5] == [path.target_name, path.source_name, far, f"{path.weight:.2f}"]
        assert cells[6:] == [f"{path.times_uniform:.1f}", f"{path.first_step} ± 10", "100 %", "1 of 2"]
    assert page.colours("#panel-arcs .panel-body") > 20
    assert page.page.locator("#note-paths").inner_text() == "mean weight over the last 4 records, to step 300"
    for panel in ("arcs", "paths"):
        told = page.page.locator(f"#title-{panel}").get_attribute("title") or ""
        assert "A skip path: distance 2 or more" in told
        assert "Source: " in told
    keys = page.page.locator("#key-arcs").inner_text()
    assert "attention" in keys
    assert "weight only" not in keys, "no arc is dashed here"
    assert "early, no skip path" in page.page.locator("#overlay-arcs").inner_text()
    assert "only an intervention shows an effect" in page.page.locator(".body-paths .key-row").inner_text()


def test_controls_leave_paths_out_and_the_address_keeps_them(page: AppPage, place: str) -> None:
    page.open(f"{place}paths")
    page.page.locator('select[data-name="distance"]').select_option("8")
    page.settle()
    assert page.page.locator("#table-paths tbody tr").count() == 2
    assert arcs(page) == 2
    assert "4 of 6 left out by the controls" in page.page.locator("#note-paths").inner_text()
    page.page.reload()
    page.settle()
    assert "distance=8" in page.page.url
    assert arcs(page) == 2
    page.page.locator('select[data-name="threshold"]').select_option("50")
    page.settle()
    assert "None of 6 skip paths passes the controls." in page.page.locator("#empty-paths").inner_text()


def test_a_row_leads_to_its_cell_in_the_maps(page: AppPage, place: str) -> None:
    page.open(f"{place}paths")
    page.page.locator("#table-paths tbody tr").nth(1).get_by_role("button").click()
    page.settle()
    assert page.page.url.startswith(f"{place}attention?")
    assert page.page.locator("#note-cell-weight").inner_text() == "5 attention, embedding"


def test_before_any_weight_crossed_the_page_says_so(page: AppPage, place: str) -> None:
    page.open(f"{place}paths?step=50")
    words = page.page.locator("#empty-arcs").inner_text()
    assert "No source meets the criterion of a skip path up to step 50." in words
