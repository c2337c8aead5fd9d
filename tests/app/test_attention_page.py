"""The Depth attention page in a browser: maps, the followed cell and the table hold what the stores hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.store import open_run
from tests.analysis.sweeps import write_sweep
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import contribution, mixing_outline, record_mixing, weight
from tests.figures.runs import record

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def mixing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run without depth attention, one with a source a sublayer, one with residual blocks of 4."""
    folder = tmp_path_factory.mktemp("mixing")
    record(folder / "plain")
    record_mixing(folder / "full")
    record_mixing(folder / "blocks", block=4)
    return folder


@pytest.fixture(scope="module")
def place(mixing: Path, serve_session: Serve) -> str:
    return serve_session(mixing)


def click_cell(page: AppPage, panel: str, target: int, source: int) -> list[str]:
    """Click the middle of a cell of the weight map, target counted from 1; return what hovering it said."""
    spot = page.page.evaluate(
        """([panel, target, source]) => {
          const gd = document.querySelector(`#graph-${panel} .js-plotly-plot`);
          const box = gd.getBoundingClientRect();
          const { xaxis, yaxis } = gd._fullLayout;
          return [box.left + xaxis._offset + xaxis.d2p(source), box.top + yaxis._offset + yaxis.d2p(target - 1)];
        }""",
        [panel, target, source],
    )
    page.page.mouse.move(*spot)
    page.until("() => !document.getElementById('tooltip').hidden")
    said = page.page.locator("#tooltip").inner_text().splitlines()
    page.page.mouse.click(*spot)
    page.settle()
    return said


def test_the_tab_leads_to_maps_with_the_stores_values_and_names_the_run_without(
    page: AppPage, place: str, mixing: Path
) -> None:
    page.open(f"{place}depth")
    page.page.get_by_role("link", name="Depth attention").click()
    page.settle()
    assert page.page.url.startswith(f"{place}attention?")
    for panel, name in (("attention-1", "full"), ("attention-2", "blocks")):
        run = open_run(mixing / name)
        assert page.title(panel) == name
        for role, quantity in (("weight", "depth_attention"), ("contribution", "depth_contribution")):
            stored = run.read(quantity, 300, 301).values[0]
            np.testing.assert_allclose(page.drawn(panel, name, role), stored, rtol=1e-6)
        assert page.colours(f"#panel-{panel} .panel-body") > 20
    assert not page.page.locator("#panel-attention-3").is_visible()
    row = page.page.locator('[data-row]:has-text("plain")')
    assert "no depth attention" in row.inner_text()
    assert "lacking" in (row.get_attribute("class") or "")
    assert "3 runs, 2 shown here" in page.page.locator("#runs-count").inner_text()
    assert (
        "only an intervention shows an effect" in page.page.locator(".body-attention .key-row").inner_text()
    )
    page.page.go_back()
    page.settle()
    assert page.page.locator("#graph-profile").is_visible()


def test_a_click_on_a_cell_follows_it_over_steps(page: AppPage, place: str) -> None:
    page.open(f"{place}attention?step=200")
    hover = click_cell(page, "attention-1", 6, 2)
    steps = range(0, 301, 10)
    expected = [weight(step, 6)[2] for step in steps]
    np.testing.assert_allclose(page.drawn("cell-weight", "full"), expected, rtol=1e-6)
    np.testing.assert_allclose(
        page.drawn("cell-contribution", "full"), [contribution(step, 6)[2] for step in steps], atol=1e-6
    )
    assert page.page.locator("#note-cell-weight").inner_text() == "6 MLP, sublayer 2"
    assert page.page.locator("#key-cell-weight").inner_text() == f"{weight(200, 6)[2]:.2f}"
    assert page.page.locator("#overlay-attention-1 .cell-mark").count() == 2
    assert page.page.locator("#overlay-attention-2 .cell-mark").count() == 0
    assert hover == ["0.125 full", "6 MLP reads sublayer 2, weight, uniform 0.167", "step 200"]
    assert f"cell={page.ids()['full']}:6:2" in page.page.url
    page.page.reload()
    page.settle()
    assert page.page.locator("#note-cell-contribution").inner_text() == "6 MLP, sublayer 2"


def test_controls_choose_targets_what_is_subtracted_and_which_run(page: AppPage, place: str) -> None:
    page.open(f"{place}attention?step=100")
    page.page.get_by_role("button", name="Pre-MLP").click()
    page.page.get_by_role("button", name="Minus uniform").click()
    page.settle()
    drawn = page.drawn("attention-1", "full", "weight")
    assert drawn.shape == (4, 9)
    np.testing.assert_allclose(drawn[1, :4], weight(100, 4) - 0.25, atol=1e-6)
    page.page.get_by_role("button", name="Together").click()
    page.page.get_by_role("button", name="Difference").click()
    page.settle()
    np.testing.assert_allclose(
        page.drawn("attention-1", "full", "weight")[3, :4], weight(100, 4) - 0.25, atol=1e-6
    )
    assert page.page.locator("#note-attention-1").inner_text() == "minus step 0, step 100"
    page.page.locator('#only [data-action="set"]', has_text="blocks").click()
    page.settle()
    assert page.title("attention-1") == "blocks"
    assert not page.page.locator("#panel-attention-2").is_visible()


def test_the_table_lists_distant_sources_and_a_row_is_followed(page: AppPage, place: str) -> None:
    page.open(f"{place}attention?step=300")
    rows = page.page.locator("#table-distant tbody tr")
    first = rows.first.locator("td").all_inner_texts()
    assert first == ["4 MLP", "embedding", "4", "0.57", "0.37", "2.3"]
    rows.nth(2).get_by_role("button").click()
    page.settle()
    assert page.page.locator("#note-cell-weight").inner_text() == "6 MLP, embedding"


def test_without_any_depth_attention_the_page_says_why(page: AppPage, place: str) -> None:
    page.open(f"{place}depth")
    plain = page.ids()["plain"]
    page.open(f"{place}attention?runs={plain}")
    words = page.page.locator("#empty-attention-1").inner_text()
    assert "Depth attention: depth attention was not recorded." in words
    assert "depthscope.Recorder(" in words


def test_a_finding_leads_to_its_cell_at_its_step(page: AppPage, place: str) -> None:
    page.open(f"{place}attention?step=0")
    page.until("() => document.querySelectorAll('#findings .finding:not([hidden])').length === 1")
    page.page.locator("#findings .link:visible").click()
    page.settle()
    assert page.state()["shownStep"] == 300
    assert page.page.locator("#note-cell-weight").inner_text() == "4 MLP, embedding"


KEYS = {"unreachable", "partial block", "attention", "MLP"}


def keys(page: AppPage) -> set[str]:
    said = page.page.locator("#key-attention-1").inner_text().splitlines()
    return {line.strip() for line in said} & KEYS


def test_the_key_row_names_the_marks_of_the_maps_below_it(
    page: AppPage, tmp_path: Path, serve_session: Serve
) -> None:
    record_mixing(tmp_path / "deep", layers=128, block=8, steps=(0, 300))
    record_mixing(tmp_path / "deep-full", layers=128, steps=(0, 300))
    record_mixing(tmp_path / "shallow", layers=12)
    place = serve_session(tmp_path)
    page.open(f"{place}attention")
    runs = page.ids()
    expected = {
        "deep": {"unreachable", "partial block"},
        "deep-full": {"unreachable"},
        "shallow": {"unreachable", "attention", "MLP"},
    }
    for name, found in expected.items():
        page.open(f"{place}attention?runs={runs[name]}")
        assert keys(page) == found, name
    page.open(f"{place}attention?runs={runs['deep']},{runs['shallow']}")
    assert keys(page) == KEYS, "one key row for both maps"
    assert page.page.locator(".key-row .partial-mark.joined").count() == 1


def test_every_title_tells_definition_reduction_and_source_and_the_page_how_to_read_it(
    page: AppPage, place: str
) -> None:
    page.open(f"{place}attention?step=300")
    for panel in ("attention-1", "cell-weight", "cell-contribution", "distant"):
        told = page.page.locator(f"#title-{panel}").get_attribute("title") or ""
        assert "alpha" in told
        assert "mean over" in told.lower()
        assert "Source: " in told
    assert "Rows read columns." in page.page.locator(".body-attention .key-row").inner_text()


def test_the_value_of_a_cell_is_that_of_the_step_though_its_series_is_binned(
    page: AppPage, tmp_path: Path, serve_session: Serve
) -> None:
    record_mixing(tmp_path / "long", layers=6, steps=range(0, 18000, 10))
    place = serve_session(tmp_path)
    page.open(f"{place}attention")
    run = page.ids()["long"]
    page.open(f"{place}attention?step=300&cell={run}:6:0")
    assert len(page.drawn("cell-weight", "long")) < 1800, "points are means of several records"
    assert page.page.locator("#key-cell-weight").inner_text() == f"{weight(300, 6)[0]:.2f}"


def test_effects_are_a_map_of_their_own_beside_weight_and_contribution(
    page: AppPage, tmp_path: Path, serve_session: Serve
) -> None:
    record_mixing(tmp_path / "cut")
    record_mixing(tmp_path / "uncut")
    layout = mixing_outline(8)
    change = np.full((9, 9, 2), np.nan)
    for target, columns in enumerate(layout.sources):
        for source in columns if len(columns) > 1 else ():
            change[target, source] = (target - source) / 100
    write_sweep(tmp_path / "cut", "a", 200, change, layout=layout)
    place = serve_session(tmp_path)
    page.open(f"{place}attention?step=200")
    effect = page.drawn("attention-1", "cut", "effect")
    np.testing.assert_allclose(effect, change.mean(axis=-1), rtol=1e-6)
    middle = page.page.evaluate(
        "() => { const { cmin, cmax } = document.querySelector('#graph-attention-1 .js-plotly-plot')._fullLayout.coloraxis3; return cmin + cmax; }"
    )
    assert middle == 0
    said = page.page.locator("#key-attention-1").inner_text().splitlines()
    assert {"effect, nats a token", "not measured", "unreachable"} <= set(said)
    assert (
        "; effect: zero, step 200, 2 batches" in page.page.locator("#note-attention-1").text_content()  # type: ignore[operator]
    )
    note = page.page.locator(".body-attention .key-row .note.stays").bounding_box()
    assert note is not None
    assert note["x"] + note["width"] <= 1440, "the line about weights stays in sight"
    spot = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-attention-1 .js-plotly-plot");
          const box = gd.getBoundingClientRect();
          const { xaxis5, yaxis } = gd._fullLayout;
          return [box.left + xaxis5._offset + xaxis5.d2p(2), box.top + yaxis._offset + yaxis.d2p(5)];
        }"""
    )
    page.page.mouse.move(*spot)
    page.until("() => !document.getElementById('tooltip').hidden")
    told = page.page.locator("#tooltip").inner_text().splitlines()
    assert told[0] == "0.0300 ± 0.00 cut, nats a token"
    assert told[1:] == ["6 MLP without sublayer 2, loss change when cut", "zero, step 200, 2 batches"]
    page.page.mouse.click(*spot)
    page.settle()
    assert page.page.locator("#note-cell-weight").inner_text() == "6 MLP, sublayer 2"
    assert page.page.locator("#overlay-attention-1 .cell-mark").count() == 3
    page.open(f"{place}attention?step=300")
    assert page.page.locator("#warning-attention-1").text_content() == (
        "effects measured at step 200, page at 300"
    )
