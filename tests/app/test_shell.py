"""The frame around the page: drawer, themes, sizes, keys, and what happens while runs change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.runs import record, rows, start, state

pytestmark = pytest.mark.browser


def test_a_live_run_grows_on_the_page_and_the_zoom_stays(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    writer = start(tmp_path / "growing")
    for step in (0, 10):
        writer.append("fast", step, rows(step, 8))
    page.open(serve(tmp_path) + "depth")
    assert "live" in page.page.locator("[data-row]").inner_text()
    loss = page.page.locator("#graph-loss .nsewdrag").first.bounding_box()
    assert loss is not None
    middle = loss["x"] + loss["width"] / 2
    page.page.mouse.move(middle, loss["y"] + 40)
    page.page.mouse.down()
    page.page.mouse.move(middle, loss["y"] + 120, steps=4)
    page.page.mouse.up()
    zoom = "() => document.querySelector('#graph-loss .js-plotly-plot')._fullLayout.yaxis.range"
    page.until(f"() => ({zoom})()[1] - ({zoom})()[0] < 0.4")
    page.settle()
    zoomed = page.page.evaluate(zoom)
    assert zoomed[1] - zoomed[0] < 0.4, "an answer that was under way leaves the zoom"
    for step in (20, 30):
        writer.append("fast", step, rows(step, 8))
    page.wait_step(30)
    np.testing.assert_allclose(page.drawn("profile", "growing"), state(30, 8), rtol=1e-6)
    page.until("() => document.querySelector('#graph-loss .js-plotly-plot')._fullData[0].y.length === 4")
    assert page.drawn("maps", "growing", "map").shape == (8, 4)
    assert page.page.evaluate(zoom) == zoomed
    page.page.mouse.dblclick(middle, loss["y"] + 60)
    page.until(f"() => ({zoom})()[1] - ({zoom})()[0] > 0.4")
    assert page.page.locator("#step-input").input_value() == "30"
    page.page.keyboard.press("ArrowLeft")
    page.wait_step(20)
    record(tmp_path / "later", scale=3.0)
    page.until("() => depthscope.resolve().runs.length === 2")
    page.settle()
    assert page.state()["shownStep"] == 20, "a step chosen by hand stays while runs grow"
    writer.close()
    page.until("() => depthscope.catalogue.runs.every((run) => run.status === 'finished')")


def test_a_double_click_takes_back_the_zoom_and_chooses_no_step(page: AppPage, address: str) -> None:
    page.open(address + "depth")
    step = page.page.locator("#step-input")
    newest = step.input_value()
    maps = page.page.locator("#graph-maps .nsewdrag").first.bounding_box()
    assert maps is not None
    cell = (maps["x"] + maps["width"] / 3, maps["y"] + maps["height"] / 2)
    rows = "() => document.querySelector('#graph-maps .js-plotly-plot')._fullLayout.yaxis.range"
    whole = page.page.evaluate(rows)
    page.page.mouse.move(cell[0], cell[1] - 40)
    page.page.mouse.down()
    page.page.mouse.move(cell[0], cell[1] + 40, steps=4)
    page.page.mouse.up()
    page.until(f"(whole) => Math.abs(({rows})()[1] - ({rows})()[0]) < Math.abs(whole[1] - whole[0])", whole)
    page.settle()
    # A page that is busy after each click hears of the second one late.
    busy = "const end = Date.now() + 800; while (Date.now() < end);"
    page.page.evaluate(f"() => document.addEventListener('click', () => {{ {busy} }}, true)")
    page.page.mouse.move(*cell)
    page.page.mouse.dblclick(*cell)
    page.until(f"(whole) => ({rows})().join() === whole.join()", whole)
    assert step.input_value() == newest
    page.page.mouse.click(*cell)
    page.until("(newest) => document.getElementById('step-input').value !== newest", newest)


def test_the_theme_follows_the_system_until_it_is_switched(browser: Browser, address: str) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": 1440, "height": 900})
    page = AppPage(context.new_page())
    page.open(f"{address}depth")
    assert page.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    line = "() => document.querySelector('#graph-profile .js-plotly-plot')._fullData[0].line.color"
    assert page.page.evaluate(line) == "#4C9FE6"
    page.page.emulate_media(color_scheme="light")
    page.until(f"() => ({line})() === '#0072B2'")
    page.settle()
    page.page.get_by_role("button", name="Switch between light and dark").click()
    page.until(f"() => ({line})() === '#4C9FE6'")
    page.open(f"{address}depth")
    assert page.page.evaluate("() => document.documentElement.dataset.theme") == "dark", "the choice is kept"
    assert page.troubles == []
    context.close()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720)])
def test_the_page_fits_without_scrolling_and_no_labels_overlap(
    page: AppPage, address: str, width: int, height: int
) -> None:
    page.page.set_viewport_size({"width": width, "height": height})
    page.open(f"{address}depth?step=200&pins=50,100")
    sizes = page.page.evaluate(
        """() => {
          const main = document.getElementById("page");
          const box = (id) => document.getElementById(id).getBoundingClientRect();
          return {
            scroll: [main.scrollHeight - main.clientHeight, main.scrollWidth - main.clientWidth],
            rows: [box("panel-profile").height, box("panel-maps").height],
            drawer: box("drawer").width,
            bar: box("stepbar").height,
          };
        }"""
    )
    assert sizes["scroll"] == [0, 0]
    assert sizes["rows"][0] >= 246
    assert sizes["rows"][1] >= 226
    assert sizes["drawer"] == (248 if width > 1360 else 48)
    assert sizes["bar"] == 72
    overlapping = page.page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll(".end-label, .band-name, .map-title, .cursor-label:not(.covered)")]
            .map((element) => [element.textContent, element.getBoundingClientRect()]);
          const hit = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
          return boxes.flatMap(([name, a], i) => boxes.slice(i + 1).filter(([, b]) => hit(a, b)).map(([other]) => [name, other]));
        }"""
    )
    assert overlapping == []


@pytest.mark.parametrize("width", [1100, 1200, 1201, 1360, 1361, 1400, 1440, 1521])
def test_names_of_pages_and_the_state_of_the_runs_stand_apart(
    page: AppPage, address: str, width: int
) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    page.open(f"{address}run")
    apart = page.page.evaluate(
        """() => {
          const tabs = [...document.querySelectorAll(".page-tab")];
          document.getElementById("live-text").lastChild.textContent = "updated 59 min ago";
          const box = (element) => element.getBoundingClientRect();
          const pill = document.getElementById("live");
          return {
            room: box(pill).left - Math.max(...tabs.map((tab) => box(tab).right)),
            between: Math.min(...tabs.slice(1).map((tab, i) => box(tab).left - box(tabs[i]).right)),
            cut: document.getElementById("live-text").scrollWidth - document.getElementById("live-text").clientWidth,
            right: innerWidth - box(document.querySelector(".tools").lastElementChild).right,
          };
        }"""
    )
    assert apart["room"] >= 12
    assert apart["between"] >= 12
    assert apart["cut"] <= 0
    assert apart["right"] >= 16


def test_keys_do_what_the_help_says(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    page.page.keyboard.press("?")
    help_text = page.page.locator("#help").inner_text()
    assert "difference to the baseline" in help_text
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#help").is_visible()
    page.page.keyboard.press("l")
    page.until(
        "() => document.querySelector('#graph-profile .js-plotly-plot')._fullLayout.yaxis.type === 'linear'"
    )
    page.page.keyboard.press("Home")
    page.wait_step(0)
    page.page.keyboard.press("/")
    page.page.keyboard.type("blo")
    assert page.page.locator("[data-row]").count() == 1
    assert page.page.locator("#runs-count").inner_text() == "1 of 3 runs, 3 selected"
    page.page.keyboard.press("l")
    assert page.state()["scale"] == "linear", "letters typed into a field are no keys"


def test_runs_that_see_other_numbers_of_tokens_a_step_are_told_apart(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    record(tmp_path / "a", config={"tokens_per_step": 64})
    record(tmp_path / "b", config={"tokens_per_step": 32})
    page.open(serve(tmp_path) + "depth")
    assert page.page.locator("#warning-profile").inner_text() == "tokens per step differ"
    page.page.locator('[data-value="tokens"]').click()
    page.settle()
    assert page.page.locator("#warning-profile").inner_text() == ""
    assert "at equal tokens" in page.page.locator("#note-profile").inner_text()


def test_every_control_has_a_name_and_can_be_reached_by_tab(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll("button, a, input, select, [role=slider]")].filter((element) =>
          !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length
            || element.placeholder)).map((element) => element.outerHTML)"""
    )
    assert nameless == []
    reached = set()
    for _ in range(60):
        page.page.keyboard.press("Tab")
        reached.add(
            page.page.evaluate("() => document.activeElement.id || document.activeElement.textContent")
        )
    assert {"search", "live", "play", "step-input", "slider", "Absolute", "Linear", "plain"} <= reached


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_shown(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    record(tmp_path / "fine")
    record(tmp_path / "torn")
    (tmp_path / "torn" / "rank00000" / "data.zarr" / "zarr.json").write_text("{")
    page.open(serve(tmp_path) + "depth")
    assert page.state()["runs"] == ["fine"]
    row = page.page.locator('[data-row]:has-text("torn")')
    assert "unreadable" in row.inner_text()
    assert "damaged" in str(row.get_attribute("title"))
    assert str(tmp_path) not in page.page.content()


def test_a_folder_without_runs_says_how_to_record_one_and_shows_it_when_it_comes(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    page.open(serve(tmp_path) + "depth")
    assert "depthscope demo" in page.page.locator("#empty-profile").inner_text()
    record(tmp_path / "first")
    page.wait_step(300)
    np.testing.assert_allclose(page.drawn("profile", "first"), state(300, 8), rtol=1e-6)


def test_run_names_are_shown_as_they_are_typed(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)> %{y} &amp;"
    record(tmp_path / "odd", name=name)
    page.open(serve(tmp_path) + "depth")
    assert page.page.locator(".run-name").inner_text() == name
    assert page.page.locator("img").count() == 0


def test_the_step_bar_shows_the_learning_rates_phases(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    page.until("() => document.querySelectorAll('.phase').length === 3")
    assert page.page.locator("#slider-phases").inner_text().split() == ["warm-up", "constant", "decay"]


def test_behind_a_prefix_the_page_works(page: AppPage, serve: Serve, root: Path) -> None:
    place = serve(root, prefix="/proxy/8050/")
    assert place.endswith("/proxy/8050/")
    page.open(f"{place}depth")
    assert page.page.url.split("?")[0] == place or page.page.url.startswith(place)
    np.testing.assert_allclose(page.drawn("profile", "plain"), state(300, 8), rtol=1e-6)


def test_an_unexpected_error_becomes_a_toast_and_the_panels_stay(
    page: AppPage, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    page.open(f"{address}depth")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("depthscope.app.pages.depth_profile_answers.depth_profile_data", broken)
    page.page.keyboard.press("ArrowLeft")
    page.until("() => document.getElementById('toast').innerText.includes('RuntimeError: a fault of ours')")
    assert page.drawn("profile", "plain").shape == (8,)
    assert "a callback failed" in caplog.text
    monkeypatch.undo()
    page.page.get_by_role("button", name="Close").last.click()
    page.until("() => document.getElementById('toast').innerText === ''")


def test_a_menu_used_with_the_pointer_gives_the_arrow_keys_back(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    last = page.state()["shownStep"]
    menu = page.page.locator("select[data-name='metric']")
    menu.dispatch_event("pointerdown")
    menu.select_option("write_rms")
    page.settle()
    page.page.keyboard.press("ArrowLeft")
    page.until("(last) => depthscope.resolve().shownStep < last", last)
    assert page.state()["metric"] == "write_rms"


def test_escape_empties_the_search(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    search = page.page.locator("#search")
    search.fill("short")
    page.until("() => document.querySelectorAll('[data-row]').length === 1")
    search.press("Escape")
    page.until("() => document.querySelectorAll('[data-row]').length === 3")
    assert search.input_value() == ""
