"""The Run page in a browser: the focused run's configuration, quantities, and what is missing, with why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from depthscope.app.pages.run_detail_answers import about_answer, recorded_answer, started_text
from depthscope.app.registry import Registry
from depthscope.app.state import read_ask
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.origin_runs import record_origins
from tests.figures.runs import record, start
from tests.store.runs import write_with_a_past


@pytest.mark.browser
def test_the_page_tells_what_the_focused_run_is_and_holds(page: AppPage, address: str, root: Path) -> None:
    page.open(f"{address}run")
    run = open_run(root / "plain")
    assert page.title("about") == "plain"
    about = page.page.locator("#table-about").inner_text()
    assert "8 sublayers in 4 transformer blocks" in about
    assert "31 rows, steps 0 to 300, every 10" in about
    assert re.search(r"started\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", about)
    recorded = page.page.locator("#table-recorded tbody tr")
    assert recorded.count() == len(run.quantities)
    first = page.page.locator("#table-recorded code", has_text="state_logrms").first
    assert "log(" in (first.get_attribute("title") or "")
    config = page.page.locator("#table-config").inner_text()
    assert "schedule.decay_start\t240" in config
    assert "holds no table of its sites" in page.page.locator("#empty-sites").inner_text()
    assert page.page.locator("#empty-missing").inner_text() == "Nothing that was asked for is missing."
    assert str(root) not in page.page.content(), "paths stay on the server"


@pytest.mark.browser
def test_the_page_tells_what_every_site_gave_and_why_the_rest_is_not_there(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    writer = start(tmp_path / "bypassed")
    told = "never fired: the parent bypasses its forward"
    writer.annotate(
        "sites",
        [
            {"site": "write", "where": "layers 1-5, 7-8", "recorded": ["write_rms"], "missing": {}},
            {
                "site": "write",
                "where": "layer 6 (tower.2.beta)",
                "recorded": [],
                "missing": {told: ["write_rms"]},
            },
            "not a line",
        ],
    )
    writer.close()
    page.open(f"{serve(tmp_path)}run")
    rows = page.page.locator("#table-sites tbody tr")
    assert rows.all_inner_texts() == [
        "write\tlayers 1-5, 7-8\twrite_rms\t",
        f"write\tlayer 6 (tower.2.beta)\tnothing\t\nall of it: {told}",
    ]
    assert page.page.locator("#note-sites").inner_text() == "1 of 2 rows lack something"


@pytest.mark.browser
def test_another_name_in_the_drawer_shows_that_run(page: AppPage, address: str) -> None:
    page.open(f"{address}run")
    page.page.locator('[data-action="focus-run"]', has_text="short").click()
    page.settle()
    assert page.title("about") == "short"
    assert "steps 0 to 200" in page.page.locator("#table-about").inner_text()


def test_the_time_of_the_start_is_told_with_its_zone() -> None:
    assert started_text("2026-03-01T13:00:00.250+01:00") == "2026-03-01 12:00:00 UTC"
    assert started_text("yesterday") == "yesterday"


def test_a_stream_that_the_training_loop_left_empty_is_not_waited_for(tmp_path: Path) -> None:
    record(tmp_path / "done", validation=False)
    writer = start(tmp_path / "growing")
    registry = Registry(tmp_path)
    told = {}
    for run in registry.runs(registry.slots()):
        told[run.name] = str(about_answer(read_ask({}, ()), [run], {}).rows)
    writer.close()
    assert "empty: the training loop gave none, as recorder.evaluation(" in told["done"]
    assert "no row yet" not in told["done"]
    assert "no row yet" in told["growing"], "its fast stream"


def test_earlier_attempts_and_lost_rows_are_told(tmp_path: Path) -> None:
    write_with_a_past(tmp_path / "past")
    record(tmp_path / "whole")
    registry = Registry(tmp_path)
    whole, past = (
        str(about_answer(read_ask({}, ()), [run], {}).rows)
        for run in sorted(registry.runs(registry.slots()), key=lambda run: run.name, reverse=True)
    )
    assert "Div('attempt 1: up to step 50, taken back to step 30')" in past
    assert "Div('fast: 5 rows, steps 40 to 44 (No space left on device)')" in past
    for fact in ("earlier attempts", "rows lost"):
        assert f"[Th(children='{fact}', scope='row'), Td('none')]" in whole


def test_each_quantity_is_told_with_the_stream_that_it_is_read_from(tmp_path: Path) -> None:
    """The share of the newest write comes out of the contributions where a run does not record it itself."""
    record(tmp_path / "own")
    record_origins(tmp_path / "held")
    registry = Registry(tmp_path)
    streams = {}
    for run in registry.runs(registry.slots()):
        for row in recorded_answer(read_ask({}, ()), [run], {}).rows[1].children:
            cells = [cell.children for cell in row.children]
            streams[run.name, getattr(cells[0], "children", cells[0])] = cells[-1]
    assert streams["own", "fresh_share"] == streams["held", "loss"] == "fast"
    assert streams["held", "fresh_share"] == streams["held", "mixing_contribution"] == "slow"
    assert streams["own", "write_share"] == "derived"
