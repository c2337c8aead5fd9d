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
