"""The findings line stays at the finding whose evidence is shown, and no text stays cut."""

from __future__ import annotations

import pytest

from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import record_mixing
from tests.figures.runs import record

pytestmark = pytest.mark.browser
SHOWN = "() => document.querySelector('#findings .finding:not([hidden])')"
LONG = "a-run-with-a-name-that-no-line-of-any-panel-on-this-page-has-the-room-for-" * 3


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, serve_session: Serve) -> str:
    folder = tmp_path_factory.mktemp("kinds")
    record(folder / "plain", scale=2.0)
    record_mixing(folder / "full")
    record_mixing(folder / "longer", name=LONG)
    return serve_session(folder)


def test_the_line_stays_at_the_finding_whose_evidence_was_asked_for(page: AppPage, place: str) -> None:
    page.open(place)
    lines = page.page.locator(".finding-line", has_text="State rms grows")
    wanted = lines.last.get_attribute("data-finding")
    lines.last.get_by_role("button").click()
    page.until(f"(key) => ({SHOWN})()?.dataset.finding === key", wanted)
    page.settle()
    count = page.page.locator("#finding-count")
    assert count.inner_text().endswith(", shown here")
    link = page.page.locator("#findings .finding:not([hidden]) .link")
    assert link.get_attribute("aria-current") == "true"
    assert f"finding={wanted}" in page.page.url
    page.page.keyboard.press("ArrowLeft")
    page.until("() => !document.getElementById('finding-count').innerText.includes('shown here')")
    assert page.page.evaluate(f"{SHOWN}.dataset.finding".replace("() => ", "")) == wanted, "it stays"
    link.click()
    page.until("() => document.getElementById('finding-count').innerText.endsWith('shown here')")
    page.page.get_by_role("button", name="Next finding").click()
    page.until(f"(key) => ({SHOWN})()?.dataset.finding !== key", wanted)
    page.page.go_back()
    page.settle()
    assert page.state()["page"] == "overview"


def test_a_link_opens_at_its_finding(page: AppPage, place: str) -> None:
    page.open(f"{place}depth")
    page.page.get_by_role("button", name="Next finding").click()
    key = page.page.evaluate("() => depthscope.state.finding")
    page.open(page.page.url)
    page.until(f"(key) => ({SHOWN})()?.dataset.finding === key", key)


def test_a_cut_text_opens_in_full_with_the_keyboard(page: AppPage, place: str) -> None:
    page.page.set_viewport_size({"width": 1280, "height": 720})
    page.open(f"{place}depth")
    page.page.locator("#findings .finding").first.wait_for(state="attached")
    page.until(
        """(name) => {
          const rows = [...document.querySelectorAll("#findings .finding")];
          const row = rows.find((entry) => entry.innerText.includes(name) || entry.textContent.includes(name));
          if (!row) return false;
          depthscope.change({ finding: row.dataset.finding });
          return true;
        }""",
        LONG,
    )
    sentence = page.page.locator("#findings .finding:not([hidden]) .sentence")
    page.until("() => document.querySelector('#findings .finding:not([hidden]) [data-clipped]')")
    assert (sentence.get_attribute("tabindex"), sentence.get_attribute("aria-expanded")) == ("0", "false")
    sentence.focus()
    page.page.keyboard.press("Enter")
    full = page.page.locator("#full-text")
    assert full.is_visible()
    assert LONG in full.inner_text()
    assert (
        page.page.evaluate(
            "() => { const f = document.getElementById('full-text'); return f.scrollWidth - f.clientWidth }"
        )
        <= 0
    )
    page.page.keyboard.press("Escape")
    assert not full.is_visible()


def test_what_a_card_has_no_number_for_is_a_list_with_reasons(page: AppPage, place: str) -> None:
    page.open(place)
    card = page.page.locator(".card").first
    card.locator("summary").click()
    items = card.locator("li").all_inner_texts()
    assert card.locator("summary").inner_text() == f"Not here: {len(items)} of 6"
    assert "Widest skip path, weight: the design has no depth attention." in items


def test_cards_show_whole_names(page: AppPage, place: str) -> None:
    page.open(place)
    cut = page.page.evaluate(
        """() => [...document.querySelectorAll(".card *")].filter((element) =>
          element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === "hidden")
          .map((element) => element.textContent)"""
    )
    assert cut == []
