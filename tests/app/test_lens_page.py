"""The Lens page in a browser: lines and maps are the lens's numbers, and what is missing says what to type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.sweeps import write_lens
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import mixing_outline, record_mixing
from tests.figures.runs import outline, record

pytestmark = pytest.mark.browser
SHOWN = ("kl", "agreement", "influence", "attribution", "cka")


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 8 sublayers with a lens, one without an attribution, and one that nobody looked into."""
    folder = tmp_path_factory.mktemp("looked") / "runs"
    record_mixing(folder / "blocks", block=4)
    record(folder / "plain")
    record(folder / "unseen")
    write_lens(folder / "blocks", "a", 300, mixing_outline(8, 4))
    write_lens(folder / "plain", "a", 200, outline(8, 0), attribution=False, scale=2.0)
    return folder


@pytest.fixture(scope="module")
def place(looked: Path, serve_session: Serve) -> str:
    return serve_session(looked)


def test_a_digit_leads_to_lines_and_maps_of_every_run_with_a_lens(page: AppPage, place: str) -> None:
    page.open(f"{place}overview")
    page.page.keyboard.press("8")
    page.settle()
    assert page.page.url.startswith(f"{place}lens")
    page.open(f"{place}lens?scale=linear")
    np.testing.assert_allclose(page.drawn("lens-kl", "blocks"), 1.05 * np.arange(9)[::-1], rtol=1e-6)
    np.testing.assert_allclose(page.drawn("lens-kl", "plain"), 2.1 * np.arange(9)[::-1], rtol=1e-6)
    np.testing.assert_allclose(page.drawn("lens-agreement", "blocks"), np.arange(9) / 8, rtol=1e-6)
    np.testing.assert_allclose(page.drawn("lens-influence", "plain"), 0.105 * np.arange(1, 5), rtol=1e-6)
    np.testing.assert_allclose(page.drawn("lens-attribution", "blocks"), 1.05 * np.arange(3), rtol=1e-6)
    depth = np.arange(9)
    cka = 1 / (1 + np.abs(depth[:, None] - depth))
    for name in ("blocks", "plain"):
        np.testing.assert_allclose(page.drawn("lens-cka", name, "map"), cka, rtol=1e-6)
    tokens = np.arange(9)[::-1, None] + np.arange(5) / 10
    np.testing.assert_allclose(page.drawn("lens-tokens", "blocks", "map"), tokens, rtol=1e-6)
    for show in (*SHOWN, "tokens"):
        assert page.colours(f"#panel-lens-{show} .panel-body") > 20
        assert "Source: " in (page.page.locator(f"#title-lens-{show}").get_attribute("title") or "")
    row = page.page.locator('[data-row]:has-text("unseen")')
    assert "no lens measured" in row.inner_text()
    assert "share of the top 5" in (page.page.locator("#note-lens-agreement").text_content() or "")
    assert (
        page.page.locator("#warning-lens-attribution").text_content() == "plain: the logits have a soft cap"
    )


def test_hovering_names_the_state_and_the_page_says_of_which_step_a_lens_is(
    page: AppPage, place: str
) -> None:
    page.open(f"{place}lens?step=300&scale=linear")
    said = page.page.locator("#overlay-lens-kl .elsewhere").inner_text()
    assert said == "measured at step 200, page at 300", "of the other run it was measured there"
    spot = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-lens-kl .js-plotly-plot");
          const { left, top } = gd.getBoundingClientRect();
          const { xaxis, yaxis } = gd._fullLayout;
          const trace = gd._fullData[1];
          return [left + xaxis._offset + xaxis.l2p(2), top + yaxis._offset + yaxis.l2p(trace.y[2])];
        }"""
    )
    page.page.mouse.move(*spot)
    page.until("() => !document.getElementById('tooltip').hidden")
    said = page.page.locator("#tooltip").inner_text().splitlines()
    assert said[0] == "12.6 ± 7.62 plain"
    assert said[1].startswith("KL of the output from the state after")
    assert said[2] == "step 200"


def test_hovering_a_token_names_the_likeliest_there(page: AppPage, place: str) -> None:
    page.open(f"{place}lens")
    spot = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-lens-tokens .js-plotly-plot");
          gd.scrollIntoView();
          const { left, top } = gd.getBoundingClientRect();
          const { xaxis, yaxis } = gd._fullLayout;
          return [left + xaxis._offset + xaxis.l2p(3), top + yaxis._offset + yaxis.l2p(6)];
        }"""
    )
    page.page.mouse.move(*spot)
    page.until("() => !document.getElementById('tooltip').hidden")
    said = page.page.locator("#tooltip").inner_text().splitlines()
    assert said == [
        "2.30 blocks, nats",
        "token 3, the state after 6 MLP",
        "likeliest there: token id 603, step 300",
    ]


def test_without_any_lens_one_panel_says_what_to_type(page: AppPage, place: str) -> None:
    page.open(f"{place}lens")
    page.open(f"{place}lens?runs={page.ids()['unseen']}")
    words = page.page.locator("#empty-lens-kl").inner_text()
    assert "No lens is measured." in words
    assert "depthscope causal runs/unseen --kind lens --checkpoint FILE" in words
    assert not page.page.locator("#panel-lens-cka").is_visible()
