"""The Block boundaries page in a browser: the folded state and the ratios are those of the stores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import BoundaryOptions, block_boundaries_data
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.runs import record, state

pytestmark = pytest.mark.browser
ARRAYS = ("state_rms", "state_logrms", "write_rms", "read_rms", "grad_write_rms")


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blocks")
    record(folder / "blocks", block=4, arrays=ARRAYS)
    record(folder / "bare", block=4, arrays=ARRAYS[:2])
    return folder


@pytest.fixture(scope="module")
def place(blocks: Path, serve_session: Serve) -> str:
    return serve_session(blocks)


def test_the_state_is_folded_by_position_in_block(page: AppPage, place: str, blocks: Path) -> None:
    page.open(f"{place}boundaries?step=100")
    size = state(100, 8)
    np.testing.assert_allclose(page.drawn("boundary-folded", "blocks", "block-1"), size[:4], rtol=1e-6)
    np.testing.assert_allclose(page.drawn("boundary-folded", "blocks", "block-2"), size[4:], rtol=1e-6)
    run = open_run(blocks / "blocks")
    for show, role in (("sums", "block-1"), ("reset", "boundary-1")):
        data = block_boundaries_data([run], BoundaryOptions(show=show))  # type: ignore[arg-type]
        drawn = page.drawn(f"boundary-{show}", "blocks", role)
        np.testing.assert_allclose(drawn, data.arrays[run.id].values[0], rtol=1e-6)
        assert page.colours(f"#panel-boundary-{show} .panel-body") > 20
    assert "The sum restarts by design" in page.page.locator(".head:visible").inner_text()


def test_a_run_that_lacks_what_a_panel_needs_is_left_out_there(page: AppPage, place: str) -> None:
    page.open(place)
    page.open(f"{place}boundaries?runs={page.ids()['bare']}")
    assert page.drawn("boundary-folded", "bare", "block-1").size == 4
    assert "not recorded" in page.page.locator("#empty-boundary-reset").inner_text()


def test_a_run_without_blocks_is_the_grey_control(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    record(tmp_path / "blocks", block=4, arrays=ARRAYS)
    record(tmp_path / "plain", arrays=ARRAYS)
    page.open(serve(tmp_path) + "boundaries?step=100")
    writes = state(100, 8)[:4] / 2
    np.testing.assert_allclose(
        page.drawn("boundary-folded", "plain", "block-1"), np.sqrt(np.cumsum(writes**2)), rtol=1e-6
    )
    assert "plain (control)" in page.page.locator("#overlay-boundary-folded").inner_text()
    assert "sums over virtual blocks" in page.page.locator("#key-boundary-folded").inner_text()


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory, serve_session: Serve) -> str:
    """A page of 128 sublayers in blocks of 8, 12 in blocks of 4, and a run without blocks at each depth."""
    folder = tmp_path_factory.mktemp("deep")
    steps = range(0, 101, 10)
    spike = {0: {"state_rms": np.full(12, 1e6)}}
    record(folder / "deep", layers=128, block=8, steps=steps, arrays=ARRAYS)
    record(folder / "flat", layers=12, block=4, steps=steps, arrays=ARRAYS, changes=spike)
    for layers in (12, 128):
        name = f"a run of {layers} sublayers without blocks"
        record(folder / f"plain{layers}", layers=layers, steps=steps, arrays=ARRAYS, name=name)
    return serve_session(folder)


_CUT = """() => [...document.querySelectorAll(".body:not([hidden]) .panel-head :is(h2, .note, .warning, .key), .head-note")]
  .filter((part) => part.getClientRects().length && part.textContent)
  .filter((part) => {
    const box = part.getBoundingClientRect();
    const home = (part.closest(".panel") || document.getElementById("page")).getBoundingClientRect();
    return part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1
      || box.left < home.left || box.right > home.right + 1 || box.top < home.top - 1;
  }).map((part) => part.textContent)"""


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)], ids=str)
@pytest.mark.parametrize("path", ["boundaries", "depth"])
def test_every_word_of_every_header_can_be_read(
    page: AppPage, deep: str, size: tuple[int, int], path: str
) -> None:
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    page.open(f"{deep}{path}")
    assert page.page.evaluate(_CUT) == []
    left_out = page.page.locator("#warning-boundary-reset").text_content() or ""
    assert path == "depth" or "…blocks: no residual blocks" in left_out


def test_many_blocks_are_a_map_and_few_of_their_lines_are_drawn_over_steps(page: AppPage, deep: str) -> None:
    page.open(f"{deep}boundaries")
    page.open(f"{deep}boundaries?runs={page.ids()['deep']},{page.ids()['flat']}")
    expected = np.log10(state(100, 128).reshape(16, 8))
    np.testing.assert_allclose(page.drawn("boundary-folded", "deep", "map"), expected, rtol=1e-5)
    assert page.drawn("boundary-folded", "flat", "map").shape == (3, 4)
    assert "one row a block" in page.page.locator("#note-boundary-folded").inner_text()
    assert page.page.locator("#key-boundary-folded .swatches").count() == 1
    told = page.page.locator("#warning-boundary-sums").inner_text()
    assert "deep: 8 of 16 blocks" in told
    assert "3 points above" in told
    hover = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-boundary-folded .js-plotly-plot");
          const box = gd.getBoundingClientRect();
          const { xaxis, yaxis } = gd._fullLayout;
          return [box.left + xaxis._offset + xaxis.d2p(3), box.top + yaxis._offset + yaxis.d2p(2)];
        }"""
    )
    page.page.mouse.move(*hover)
    page.until("() => !document.getElementById('tooltip').hidden")
    value = state(100, 128)[10]
    assert page.page.locator("#tooltip").inner_text().splitlines() == [
        f"{value:#.3g} deep",
        "sublayer 11, attention, block 2",
        "step 100",
    ]


def test_the_scale_is_the_reader_s_and_a_zoom_takes_the_edge_marks_away(page: AppPage, deep: str) -> None:
    page.open(f"{deep}boundaries")
    page.open(f"{deep}boundaries?runs={page.ids()['flat']}")
    axis = "() => document.querySelector('#graph-boundary-sums .js-plotly-plot')._fullLayout.yaxis.type"
    assert page.page.evaluate(axis) == "log"
    shown = """() => {
      const gd = document.querySelector("#graph-boundary-sums .js-plotly-plot");
      const marks = gd._fullData.flatMap((trace, i) => (trace.meta.kind === "above" ? [gd.calcdata[i][0].node3.node()] : []));
      return marks.map((mark) => getComputedStyle(mark).display !== "none");
    }"""
    assert page.page.evaluate(shown) == [True] * 3
    page.page.evaluate(
        "() => Plotly.relayout(document.querySelector('#graph-boundary-sums .js-plotly-plot'), {'yaxis.range': [0, 7]})"
    )
    page.until(f"() => ({shown})().every((there) => !there)")
    page.page.locator('.head:not([hidden]) [data-name="scale"][data-value="linear"]').click()
    page.settle()
    assert page.page.evaluate(axis) == "linear"
