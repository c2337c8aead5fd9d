"""The Mixing page in a browser: maps, one read, one entry and the words around them hold what the stores hold."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from depthscope.figures import MixingOptions, mixing_data
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.origin_runs import NO_NUMBERS, STEPS, Design, mixing_row, record_origins, shares
from tests.figures.runs import record

pytestmark = pytest.mark.browser
DESIGNS: tuple[Design, ...] = ("prenorm", "full-attnres", "hires", "cancelling")


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without mixing, then four designs of 8 sublayers."""
    folder = tmp_path_factory.mktemp("origins")
    record(folder / "plain")
    for design in DESIGNS:
        record_origins(folder / design, design=design, block=4 if design == "hires" else 0)
    return folder


@pytest.fixture(scope="module")
def place(origins: Path, serve_session: Serve) -> str:
    return serve_session(origins)


def at(page: AppPage, place: str, *names: str, query: str = "step=300") -> None:
    """Open the page with some runs."""
    with urlopen(f"{place}_dash-layout") as answer:
        catalogue = json.load(answer)["props"]["children"][0]["props"]["data"]["runs"]
    ids = {run["name"]: run["id"] for run in catalogue}
    page.open(f"{place}mixing?runs={','.join(ids[name] for name in names)}&{query}")


def hover(
    page: AppPage, panel: str, role: str, target: int, column: int = 0, *, click: bool = False
) -> list[str]:
    """Point at the middle of a cell, target from 1 and column from 0 within its strip; return what is said."""
    spot = page.page.evaluate(
        """([panel, role, target, column]) => {
          const gd = document.querySelector(`#graph-${panel} .js-plotly-plot`);
          const box = gd.getBoundingClientRect();
          const trace = gd._fullData.find((entry) => entry.meta.role === role);
          const xaxis = gd._fullLayout[trace.xaxis.replace("x", "xaxis")];
          const { yaxis } = gd._fullLayout;
          const x = role === "cancellation" ? 1 + trace.x[target - 1] / 2 : (trace.x[column] + trace.x[column + 1]) / 2;
          return [box.left + xaxis._offset + xaxis.d2p(x), box.top + yaxis._offset + yaxis.d2p(target - 1)];
        }""",
        [panel, role, target, column],
    )
    page.page.mouse.move(*spot)
    page.until("() => !document.getElementById('tooltip').hidden")
    said = page.page.locator("#tooltip").inner_text().splitlines()
    if click:
        page.page.mouse.click(*spot)
        page.settle()
    return said


def test_four_designs_stand_side_by_side_with_the_stores_values(
    page: AppPage, place: str, origins: Path
) -> None:
    page.open(f"{place}mixing?step=300")
    for number, design in enumerate(DESIGNS, start=1):
        panel = f"mixing-{number}"
        stored = open_run(origins / design).read("mixing_contribution", 300, 301).values[0]
        assert page.title(panel) == design
        parts = [page.drawn(panel, design, strip) for strip in ("embedding", "sublayers", "constant")]
        np.testing.assert_allclose(np.concatenate(parts, axis=1), stored, rtol=1e-6)
        assert page.colours(f"#panel-{panel} .panel-body") > 20
    tops = [page.page.locator(f"#panel-mixing-{number}").bounding_box() for number in (1, 2, 3, 4)]
    assert len({box["y"] for box in tops if box is not None}) == 1
    scales = page.page.evaluate(
        """() => [1, 2, 3, 4].map((number) => {
          const { coloraxis, xaxis2 } = document.querySelector(`#graph-mixing-${number} .js-plotly-plot`)._fullLayout;
          return JSON.stringify([coloraxis.cmin, coloraxis.cmax, xaxis2.range]);
        })"""
    )
    assert len(set(scales)) == 1, "one range of colours and of cancellation for all runs"
    row = page.page.locator('[data-row]:has-text("plain")')
    assert "mixing not recorded" in row.inner_text()


def test_one_sentence_says_how_to_read_it_and_where_shares_cancel(page: AppPage, place: str) -> None:
    at(page, place, "prenorm", "hires")
    reading = page.page.locator(".mixing-reading")
    assert "A row is one read" in reading.inner_text()
    assert "the row sums to 1" in reading.inner_text()
    assert "not an effect" in reading.inner_text()
    key = page.page.locator("#key-mixing-1")
    assert "1: none cancel" in key.inner_text()
    at(page, place, "prenorm", "cancelling")
    assert "cancels past 2: there single shares are large terms that cancel" in key.inner_text()
    assert page.page.locator("#warning-mixing-2").inner_text() == "8 cancel"
    assert page.page.locator("#warning-mixing-1").inner_text() == ""
    finding = page.page.locator("#findings .finding:visible")
    page.until("() => document.querySelectorAll('#findings .finding').length === 1")
    assert "the shares of 8 of 9 reads are large terms that cancel" in finding.inner_text()
    page.page.get_by_role("button", name="Coefficient").click()
    page.settle()
    assert "the factor with which the read holds it" in reading.inner_text()


def test_hovering_says_value_definition_sum_and_cancellation(page: AppPage, place: str) -> None:
    at(page, place, "cancelling", query="step=100")
    said = hover(page, "mixing-1", "sublayers", 5, 0)
    value = f"−{-shares('cancelling', 100, 5)[1]:.3g}"
    size = mixing_row("cancelling", 100, 8)["mixing_cancellation"][4]
    assert said == [
        f"{value} cancelling",
        "5 attention reads 1 attention: contribution ⟨c, h⟩/‖h‖², a share of the read",
        f"row sums to 1.00, cancellation {size:.2f}, step 100",
    ]
    said = hover(page, "mixing-1", "cancellation", 5)
    assert said[0] == f"{size:.2f} cancelling"
    assert said[1] == "cancellation of 5 attention: single shares are large terms that cancel"


def test_a_click_follows_an_entry_in_every_run(page: AppPage, place: str) -> None:
    at(page, place, "prenorm", "hires")
    assert page.title("mixing-series") == "Embedding in the final read"
    hover(page, "mixing-1", "sublayers", 6, 2, click=True)
    assert page.title("mixing-row") == "Read of sublayer 6 by origin"
    assert page.title("mixing-series") == "Sublayer 3 in the read of sublayer 6"
    for run in ("prenorm", "hires"):
        expected = [shares(run, step, 6)[3] for step in STEPS]  # type: ignore[arg-type]
        np.testing.assert_allclose(page.drawn("mixing-series", run), expected, rtol=1e-5)
        row = shares(run, 300, 6)  # type: ignore[arg-type]
        np.testing.assert_allclose(page.drawn("mixing-row", run, "embedding"), row[:1], rtol=1e-5)
        np.testing.assert_allclose(page.drawn("mixing-row", run, "sublayers")[:5], row[1:], rtol=1e-5)
    for number in (1, 2):
        assert page.page.locator(f"#overlay-mixing-{number} .cell-mark").count() == 1
    assert "entry=6:3" in page.page.url
    hover(page, "mixing-2", "constant", 9, click=True)
    assert page.title("mixing-series") == "Biases in the final read"
    np.testing.assert_allclose(page.drawn("mixing-row", "hires", "constant"), [0.1], rtol=1e-5)
    page.page.reload()
    page.settle()
    assert page.title("mixing-series") == "Biases in the final read"


def test_coefficients_stand_where_they_exist_and_the_reason_where_not(page: AppPage, place: str) -> None:
    at(page, place, "prenorm", "hires", query="share=coefficient")
    ones = page.drawn("mixing-1", "prenorm", "sublayers")
    assert set(ones[np.isfinite(ones)]) == {1.0}
    assert NO_NUMBERS in page.page.locator("#empty-mixing-2").inner_text()
    assert page.title("mixing-2") == "hires"
    assert NO_NUMBERS in page.page.locator("#warning-mixing-row").inner_text()


def test_the_difference_to_the_baseline_is_taken_cell_by_cell(
    page: AppPage, place: str, origins: Path
) -> None:
    at(page, place, "prenorm", "hires", query="step=200")
    page.page.keyboard.press("b")
    page.settle()
    both = [open_run(origins / name) for name in ("prenorm", "hires")]
    options = MixingOptions(step=200, mode="difference", baseline=both[0].id)
    expected = mixing_data(both, options).arrays[both[1].id].values
    np.testing.assert_allclose(page.drawn("mixing-2", "hires", "sublayers"), expected[:, 1:-1], atol=1e-6)
    assert page.page.locator("#note-mixing-2").inner_text() == "step 200"
    assert page.page.locator("#key-mixing-1").inner_text().startswith("contribution minus that of prenorm")
    reading = page.page.locator(".mixing-reading")
    assert "the row sums to 0" in reading.inner_text()
    assert "sums to 1" not in reading.inner_text()
    assert "its own row sums to 1" in " ".join(hover(page, "mixing-2", "sublayers", 3))
    page.page.mouse.move(0, 0)
    assert "it is the baseline" in page.page.locator("#empty-mixing-1").inner_text()
    page.page.keyboard.press("b")
    page.settle()
    np.testing.assert_allclose(
        page.drawn("mixing-1", "prenorm", "embedding")[-1], shares("prenorm", 200, 9)[0]
    )


def test_a_step_moves_maps_and_read_and_leaves_the_scales(page: AppPage, place: str) -> None:
    at(page, place, "prenorm", query="step=100")
    read = "() => document.querySelector('#graph-mixing-1 .js-plotly-plot')._fullLayout.coloraxis.cmax"
    before = page.page.evaluate(read)
    page.page.keyboard.press("ArrowRight")
    page.until("() => document.getElementById('note-mixing-1').innerText === 'step 110'")
    page.settle()
    np.testing.assert_allclose(
        page.drawn("mixing-1", "prenorm", "embedding")[-1], shares("prenorm", 110, 9)[0], rtol=1e-5
    )
    np.testing.assert_allclose(
        page.drawn("mixing-row", "prenorm", "embedding"), shares("prenorm", 110, 9)[:1], rtol=1e-5
    )
    assert page.page.evaluate(read) == before


def test_without_any_mixing_one_panel_says_why(page: AppPage, place: str) -> None:
    at(page, place, "plain")
    words = page.page.locator("#empty-mixing-1").inner_text()
    assert "contribution of each origin was not recorded" in words
    assert "depthscope.Recorder(" in words
    assert not page.page.locator("#panel-mixing-row").is_visible()


def test_12_and_128_sublayers_share_the_page(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    record_origins(tmp_path / "deep", design="hires", layers=128, block=8, steps=(0, 300))
    record_origins(tmp_path / "shallow", layers=12)
    place = serve(tmp_path)
    at(page, place, "deep", "shallow")
    assert page.drawn("mixing-1", "deep", "sublayers").shape == (129, 128)
    widths = [page.page.locator(f"#panel-mixing-{number}").bounding_box() for number in (1, 2)]
    assert widths[0] is not None
    assert widths[1] is not None
    assert widths[0]["width"] > widths[1]["width"], "more sublayers, more room"
    embedding = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-mixing-1 .js-plotly-plot");
          const { xaxis } = gd._fullLayout;
          const [low, high] = Object.values(gd.layout.meta.maps)[0].edges.embedding;
          return xaxis.d2p(high) - xaxis.d2p(low);
        }"""
    )
    assert embedding >= 8, "px: the embedding can be read at any depth"
    at(page, place, "deep", "shallow", query="entry=100:64")
    assert page.page.locator("#overlay-mixing-1 .cell-mark").count() == 1
    assert page.page.locator("#overlay-mixing-2 .cell-mark").count() == 0
    assert "none with number 100" in page.page.locator("#warning-mixing-row").inner_text()


LONG = "a run of rather many words, the {} of six"


def test_what_has_no_room_is_named_at_maps_and_charts(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    names = [LONG.format(number) for number in range(1, 7)]
    for number, name in enumerate(names):
        record_origins(tmp_path / str(number), layers=4, steps=(0, 10), name=name)
    address = serve(tmp_path)
    page.page.set_viewport_size({"width": 1100, "height": 900})
    at(page, address, *names, query="step=10")
    told = [page.page.locator(f"#left-out-mixing-{part}") for part in ("maps", "row", "series")]
    assert told[0].inner_text() == f"the first 4 of 6 runs, without {names[4]}, {names[5]}"
    assert [place.inner_text() for place in told[1:]] == ["the first 4 of 6 runs"] * 2
    for place in told:
        assert f"Not shown: {names[4]}, {names[5]}." in str(place.get_attribute("title"))
    assert page.page.get_by_role("button", name="First 4").is_visible()
    within = page.page.evaluate(
        """() => [1, 2, 3, 4].map((number) => {
          const card = document.getElementById(`panel-mixing-${number}`).getBoundingClientRect();
          const word = [...document.querySelectorAll(`#graph-mixing-${number} .annotation-text`)]
            .find((element) => element.textContent === "cancels").getBoundingClientRect();
          const note = document.getElementById(`note-mixing-${number}`);
          return [card.right - word.right, note.innerText, note.scrollWidth - note.clientWidth,
            card.right - note.getBoundingClientRect().right];
        })"""
    )
    for beside, note, cut, room in within:
        assert beside >= 4
        assert (note, cut <= 1, room > 0) == ("step 10", True, True)
    choice = page.page.locator("#only-mixing").bounding_box()
    assert choice is not None
    assert choice["x"] + choice["width"] <= 1100 - 16
    page.page.locator("#only-mixing .segment").nth(1).click()
    page.settle()
    assert [place.inner_text() for place in told] == [""] * 3, "one run was asked for"
    at(page, address, *names[:4], query="step=10")
    assert [place.inner_text() for place in told] == [""] * 3


def test_every_title_tells_definition_reduction_and_source(page: AppPage, place: str) -> None:
    at(page, place, "prenorm")
    for panel in ("mixing-1", "mixing-row", "mixing-series"):
        told = page.page.locator(f"#title-{panel}").get_attribute("title") or ""
        assert "mean_t <c_{i->l}, h_l>" in told
        assert "mean over a sample of tokens" in told
        assert "Source: " in told
    page.page.locator("#key-mixing-series .link").click()
    page.settle()
    assert page.page.url.startswith(f"{place}depth?"), "a way to another page about the run"
