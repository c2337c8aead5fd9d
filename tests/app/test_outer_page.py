"""The Outer state page in a browser: energies, gates and the direct path of the stores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import STEPS, energy, record_outer
from tests.figures.runs import record

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, serve_session: Serve) -> str:
    folder = tmp_path_factory.mktemp("outer")
    record(folder / "plain")
    record_outer(folder / "wide")
    record_outer(folder / "young", steps=STEPS[:3], losses=range(28))
    return serve_session(folder)


def test_the_page_shows_the_stores_values_and_names_the_run_without(page: AppPage, place: str) -> None:
    page.open(f"{place}outer?step=100")
    expected = np.stack([energy(step, 4) for step in STEPS], axis=1)
    np.testing.assert_allclose(page.drawn("outer-map", "wide", "map"), expected, rtol=1e-6)
    np.testing.assert_allclose(page.drawn("outer-balance", "wide", "energy"), energy(100, 4), rtol=1e-6)
    np.testing.assert_allclose(page.drawn("outer-balance", "wide", "carry"), np.ones(4), rtol=1e-6)
    np.testing.assert_allclose(page.drawn("outer-gates", "wide", "gate-read"), np.full(4, 0.09), rtol=1e-6)
    np.testing.assert_allclose(page.drawn("outer-gates", "wide", "initial-read"), np.full(4, 0.1), rtol=1e-6)
    direct = [0.1 / (1 + step / 100) for step in STEPS]
    np.testing.assert_allclose(page.drawn("outer-direct", "wide"), direct, rtol=1e-6)
    for panel in ("outer-map", "outer-balance", "outer-gates", "outer-direct"):
        assert page.colours(f"#panel-{panel} .panel-body") > 20
    assert "no wide state" in page.page.locator('[data-row]:has-text("plain")').inner_text()


def test_a_step_moves_what_is_at_one_step(page: AppPage, place: str) -> None:
    page.open(f"{place}depth")
    runs = page.ids()
    page.open(f"{place}outer?runs={runs['plain']},{runs['wide']}&step=100")
    page.page.keyboard.press("ArrowRight")
    page.settle()
    np.testing.assert_allclose(page.drawn("outer-balance", "wide", "energy"), energy(110, 4), rtol=1e-6)
    assert page.page.locator("#note-outer-gates").inner_text() == "step 110"


def test_without_a_wide_state_one_panel_says_why(page: AppPage, place: str) -> None:
    page.open(f"{place}depth")
    page.open(f"{place}outer?runs={page.ids()['plain']}")
    words = page.page.locator("#empty-outer-map").inner_text()
    assert "Outer energy: outer energy was not recorded." in words
    assert not page.page.locator("#panel-outer-gates").is_visible()


def test_the_cursor_of_a_map_has_its_line_also_behind_its_newest_record(page: AppPage, place: str) -> None:
    page.open(f"{place}depth")
    page.open(f"{place}outer?runs={page.ids()['young']}")
    overlay = page.page.locator("#overlay-outer-map")
    assert overlay.locator(".cursor-label").all_inner_texts() == ["27"]
    assert overlay.locator(".map-cursor").count() == 1


def test_the_page_has_findings_whose_evidence_is_its_panels_at_their_step(page: AppPage, place: str) -> None:
    page.open(f"{place}depth")
    page.open(f"{place}outer?runs={page.ids()['wide']}&step=100")
    page.until("() => document.querySelectorAll('#findings .finding').length === 3")
    first = page.page.locator("#findings .finding:visible")
    assert (
        "outer energy before the norm stays within 8.0–16 from block 2 on at step 300" in first.inner_text()
    )
    first.get_by_role("button").click()
    page.settle()
    assert page.page.locator("#note-outer-balance").inner_text() == "step 300"
    np.testing.assert_allclose(page.drawn("outer-balance", "wide", "energy")[1:], [8, 12, 16], rtol=1e-6)
