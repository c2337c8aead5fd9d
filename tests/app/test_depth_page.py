"""The Depth profile page in a browser: what it draws is what the stores hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import PANELS, AppPage
from tests.figures.runs import STEPS, record, state

pytestmark = pytest.mark.browser


def test_the_page_opens_on_the_newest_step_of_all_runs_with_the_stores_values(
    page: AppPage, address: str, root: Path
) -> None:
    page.open(f"{address}depth")
    assert page.state()["runs"] == ["plain", "blocks", "short"]
    for name, last in (("plain", 300), ("blocks", 300), ("short", 200)):
        run = open_run(root / name)
        stored = np.exp(run.read("state_logrms", last, last + 1).values[0].astype(np.float64))
        np.testing.assert_array_equal(page.drawn("profile", name), stored)
        gradient = run.read("grad_write_rms", last, last + 1).values[0]
        np.testing.assert_array_equal(page.drawn("gradient", name), gradient)
        np.testing.assert_array_equal(page.drawn("loss", name), run.read("evaluation/validation").values)
        maps = np.log10(np.exp(run.read("state_logrms").values.T.astype(np.float64)))
        np.testing.assert_allclose(page.drawn("maps", name, "map"), maps, atol=1e-6)
    assert all(page.colours(f"#panel-{panel} .panel-body") > 20 for panel in PANELS), "every panel is painted"


def test_two_runs_picked_and_the_step_moved_show_those_runs_at_that_step(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    page.page.get_by_role("checkbox", name="Show short").click()
    page.settle()
    page.page.keyboard.press("ArrowLeft")
    page.wait_step(290)
    page.page.keyboard.press("Shift+ArrowLeft")
    page.wait_step(190)
    np.testing.assert_allclose(page.drawn("profile", "plain"), state(190, 8), rtol=1e-6)
    np.testing.assert_allclose(page.drawn("profile", "blocks"), state(190, 8, 2.0), rtol=1e-6)
    step = page.page.locator("#step-input")
    step.fill("104")
    step.press("Enter")
    page.wait_step(100)
    assert step.input_value() == "100", "the nearest recorded step"
    ids = page.ids()
    assert f"runs={ids['plain']},{ids['blocks']}" in page.page.url
    assert "step=100" in page.page.url


def test_a_deep_link_restores_the_whole_state(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    ids = page.ids()
    query = (
        f"runs={ids['blocks']},{ids['plain']}&base={ids['blocks']}&focus={ids['plain']}&metric=state_rms&mode=ratio"
        "&step=150&pins=0,100&scale=linear&range=full&align=tokens"
    )
    page.open(f"{address}depth?{query}")
    found = page.state()
    assert found["runs"] == ["plain", "blocks"]
    expected = {
        "base": ids["blocks"],
        "focus": ids["plain"],
        "metric": "state_rms",
        "mode": "ratio",
        "shownStep": 150,
        "pins": [0, 100],
        "scale": "linear",
        "range": "full",
        "align": "tokens",
    }
    assert {name: found[name] for name in expected} == expected
    for name in ("plain", "blocks"):
        np.testing.assert_allclose(page.drawn("profile", name), state(150, 8) / state(150, 8)[0], rtol=1e-6)
    page.page.locator('[data-action="set"][data-value="absolute"]').click()
    page.settle()
    assert "mode=absolute" in page.page.url
    assert f"base={ids['blocks']}" in page.page.url


def test_a_link_with_nonsense_opens_the_page_all_the_same(page: AppPage, address: str) -> None:
    page.open(
        f"{address}nowhere?runs=gone&metric=<b>&mode=x&step=-3&pins=a,1e9,,&scale=cubic&base=%00&align=1"
    )
    assert page.state()["metric"] == "state_logrms"
    assert page.state()["runs"] == ["plain", "blocks", "short"]
    assert "“gone”: the newest are shown." in page.page.locator("#toast").inner_text()


def test_a_click_on_a_map_column_goes_to_its_step(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    place = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-maps .js-plotly-plot");
          const box = gd.getBoundingClientRect();
          const { xaxis2, yaxis2 } = gd._fullLayout;
          return [box.left + xaxis2._offset + xaxis2.d2p(140), box.top + yaxis2._offset + yaxis2.d2p(3)];
        }"""
    )
    page.page.mouse.move(*place)
    page.until("() => !document.getElementById('tooltip').hidden")
    hover = page.page.locator("#tooltip").inner_text().splitlines()
    value = state(140, 8, 2.0)[2]
    assert hover == [f"{value:#.3g} blocks", "sublayer 3, attention, block 1", "step 140"]
    page.page.mouse.click(*place)
    page.wait_step(140)
    assert page.page.locator("#step-input").input_value() == "140"


def test_difference_to_the_baseline_by_key_and_by_star(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    page.page.keyboard.press("b")
    page.settle()
    np.testing.assert_allclose(page.drawn("profile", "blocks"), np.ones(8), atol=1e-5)
    assert page.page.locator("#note-profile").inner_text() == ("log₂ ratio to plain; bands: blocks of blocks")
    assert (
        page.page.locator('.head:not([hidden]) [data-value="log"]').get_attribute("aria-disabled") == "true"
    )
    page.page.locator('[data-row] >> text="blocks"').first.hover()
    page.page.get_by_role("button", name="Make blocks the baseline").click()
    page.settle()
    np.testing.assert_allclose(page.drawn("profile", "plain"), -np.ones(8), atol=1e-5)
    page.page.keyboard.press("b")
    page.settle()
    np.testing.assert_allclose(page.drawn("profile", "plain"), state(300, 8), rtol=1e-6)


def test_a_quantity_that_a_run_lacks_is_named_and_one_that_all_lack_says_how_to_record_it(
    page: AppPage, address: str
) -> None:
    page.open(f"{address}depth")
    page.page.locator('[data-value="fresh"]').click()
    page.wait_title("profile", "Fresh share")
    page.settle()
    assert page.page.locator("#warning-profile").inner_text() == "short: fresh share was not recorded"
    assert "no fresh share" in page.page.locator('[data-row]:has-text("short")').inner_text()
    np.testing.assert_allclose(page.drawn("profile", "plain"), 1 / (np.arange(1, 9) + 1), rtol=1e-6)
    page.page.locator('select[data-name="metric"]').select_option("abs_max")
    page.page.locator('[data-value="absolute"]').click()
    page.wait_title("profile", "Largest entry")
    page.settle()
    words = page.page.locator("#empty-profile").inner_text()
    assert "Largest entry: largest entry was not recorded." in words
    assert "depthscope.Recorder(" in words


def test_play_goes_on_by_itself_to_the_last_step(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=260")
    page.page.keyboard.press("Space")
    page.wait_step(300)
    page.until("() => document.getElementById('play').getAttribute('aria-label') === 'Play'")


def test_a_pinned_step_is_drawn_beside_the_current_one(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=100")
    page.page.keyboard.press("p")
    page.page.keyboard.press("End")
    page.wait_step(300)
    np.testing.assert_allclose(page.drawn("profile", "plain", "pin"), state(100, 8), rtol=1e-6)
    assert "pins=100" in page.page.url
    page.page.get_by_role("button", name="Unpin step 100").click()
    page.settle()
    assert "pins" not in page.page.url


def test_there_is_no_upload_button_and_no_mode_bar(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    for panel in PANELS:
        page.page.locator(f"#graph-{panel}").hover()
        config = page.page.evaluate(
            f"() => document.querySelector('#graph-{panel} .js-plotly-plot')._context"
        )
        assert config["showSendToCloud"] is False
    assert page.page.locator(".modebar-btn").count() == 0


def test_the_findings_line_says_a_sentence_and_leads_to_its_evidence(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=0")
    page.until("() => document.querySelectorAll('#findings .finding:not([hidden])').length === 1")
    assert page.page.locator("#finding-count").inner_text().startswith("Finding 1 of ")
    page.page.locator("#findings .link:visible").click()
    page.settle()
    assert page.state()["shownStep"] in STEPS[1:]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, serve_session: Serve) -> str:
    """A page of 128 sublayers in blocks of 8 beside 12 in blocks of 4."""
    folder = tmp_path_factory.mktemp("mixed")
    record(folder / "deep", layers=128, block=8, steps=(0, 10))
    record(folder / "flat", layers=12, block=4, steps=(0, 10))
    return serve_session(folder)


_MARKED = """() => {
  const gd = document.querySelector("#graph-profile .js-plotly-plot");
  return gd._fullData.flatMap((trace, i) => {
    if (trace.meta.role !== "line") return [];
    const points = gd.calcdata[i][0].node3.node().querySelector(".points");
    return getComputedStyle(points).display === "none" ? [] : [depthscope.nameOf(trace.meta.run)];
  });
}"""


def test_a_run_without_room_for_markers_loses_them_alone_and_the_key_says_so(
    page: AppPage, mixed: str
) -> None:
    page.open(f"{mixed}depth")
    key = page.page.locator("#kinds-profile")
    assert page.page.evaluate(_MARKED) == ["flat"]
    assert key.inner_text().split() == ["attention", "MLP", "of", "flat"]
    assert page.page.locator("#note-profile").inner_text().endswith("no bands: the runs' blocks differ")
    assert page.page.locator("#overlay-profile .band-name").count() == 0
    ids = page.ids()
    page.open(f"{mixed}depth?runs={ids['deep']}")
    assert page.page.evaluate(_MARKED) == []
    assert not key.is_visible()
    page.open(f"{mixed}depth?runs={ids['flat']}")
    assert page.page.evaluate(_MARKED) == ["flat"]
    assert key.inner_text().split() == ["attention", "MLP"]
    assert page.page.locator("#note-profile").inner_text().endswith("bands: blocks of flat")


def test_points_above_the_loss_s_axis_are_counted_marked_and_told_on_hovering(
    page: AppPage, address: str
) -> None:
    page.open(f"{address}depth")
    page.open(f"{address}depth?runs={page.ids()['plain']}")
    assert page.page.locator("#warning-loss").inner_text().startswith("3 points above ")
    place = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-loss .js-plotly-plot");
          const box = gd.getBoundingClientRect();
          const { xaxis, yaxis } = gd._fullLayout;
          return [box.left + xaxis._offset + xaxis.d2p(0) + 1, box.top + yaxis._offset + 0.015 * yaxis._length];
        }"""
    )
    page.page.mouse.move(*place)
    page.until("() => !document.getElementById('tooltip').hidden")
    assert page.page.locator("#tooltip").inner_text().splitlines() == ["6.10, above the axis plain", "step 0"]


def test_the_page_says_how_to_read_it(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    assert "Each line is a run" in page.page.locator(".reading:visible").inner_text()
    assert "Each line is a run" in (page.page.locator("#title-profile").get_attribute("title") or "")
