"""The table view: the numbers behind a plot, in a dialog and as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import record_mixing, weight
from tests.figures.runs import state

pytestmark = pytest.mark.browser


def saved(page: AppPage) -> list[list[str]]:
    """Press CSV in the open dialog; return the lines of the file, the header first."""
    with page.page.expect_download() as download:
        page.page.locator('[data-action="save-table"]').click()
    assert download.value.suggested_filename.endswith(".csv")
    with Path(download.value.path()).open(newline="") as file:
        return list(csv.reader(file))


def test_a_profile_as_a_table_and_as_csv(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=100")
    page.page.locator('[data-action="table"][data-panel="profile"]').click()
    head, *rows = saved(page)
    assert head == ["run", "series", "sublayer", "State after each write"]
    drawn = [float(row[3]) for row in rows if row[0] == "plain"]
    np.testing.assert_allclose(drawn, state(100, 8), rtol=1e-6)
    first = page.page.locator("#data-table tbody tr").first.locator("td").all_inner_texts()
    assert first[:3] == ["plain", "line", "1"]
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#data").is_visible()


def test_a_map_of_depth_attention_names_targets_and_sources(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    record_mixing(tmp_path / "full")
    page.open(serve(tmp_path) + "attention?step=100")
    page.page.locator('[data-action="table"][data-panel="attention-1"]').click()
    head, *rows = saved(page)
    assert head == ["run", "series", "source sublayer", "target", "value"]
    row = next(row for row in rows if row[1:4] == ["weight", "sublayer 2", "4 MLP"])
    assert float(row[4]) == pytest.approx(weight(100, 4)[2])
    assert not [row for row in rows if row[1:4] == ["weight", "sublayer 8", "4 MLP"]], "it cannot be read"
    entropy = next(row for row in rows if row[1:3] == ["entropy", "4 MLP"])
    share = weight(100, 4)
    assert float(entropy[3]) == pytest.approx(-(share * np.log(share)).sum() / np.log(4))
