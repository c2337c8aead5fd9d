"""The Run page in a browser: the focused run's configuration, quantities, and what is missing, with why."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthscope.store import open_run
from tests.app.page import AppPage

pytestmark = pytest.mark.browser


def test_the_page_tells_what_the_focused_run_is_and_holds(page: AppPage, address: str, root: Path) -> None:
    page.open(f"{address}run")
    run = open_run(root / "plain")
    assert page.title("about") == "plain"
    about = page.page.locator("#table-about").inner_text()
    assert "8 sublayers in 4 transformer blocks" in about
    assert "31 rows, steps 0 to 300, every 10" in about
    recorded = page.page.locator("#table-recorded tbody tr")
    assert recorded.count() == len(run.quantities)
    first = page.page.locator("#table-recorded code", has_text="state_logrms").first
    assert "log(" in (first.get_attribute("title") or "")
    config = page.page.locator("#table-config").inner_text()
    assert "schedule.decay_start\t240" in config
    assert page.page.locator("#empty-missing").inner_text() == "Nothing that was asked for is missing."
    assert str(root) not in page.page.content(), "paths stay on the server"


def test_another_name_in_the_drawer_shows_that_run(page: AppPage, address: str) -> None:
    page.open(f"{address}run")
    page.page.locator('[data-action="focus-run"]', has_text="short").click()
    page.settle()
    assert page.title("about") == "short"
    assert "steps 0 to 200" in page.page.locator("#table-about").inner_text()
