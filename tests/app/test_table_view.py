"""The table view: the numbers behind a plot, in a dialog and as the CSV that `depthscope export` writes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from depthscope.report import export
from depthscope.store import open_run
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import record_mixing, record_outer, weight
from tests.figures.origin_runs import record_origins
from tests.figures.runs import record, state

pytestmark = pytest.mark.browser


def saved(page: AppPage, panel: str) -> Path:
    """Open a panel's table and press CSV; return the file."""
    page.page.locator(f'[data-action="table"][data-panel="{panel}"]').click()
    with page.page.expect_download() as download:
        page.page.locator('[data-action="save-table"]').click()
    assert download.value.suggested_filename == f"{panel}.csv"
    return Path(download.value.path())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_profile_s_csv_says_of_every_value_what_it_is(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=100")
    found = rows(saved(page, "profile"))
    plain = [row for row in found if row["run"] == "plain"]
    np.testing.assert_allclose([float(row["value"]) for row in plain], state(100, 8), rtol=1e-6)
    told = {key: plain[1][key] for key in ("quantity", "unit", "step", "layer", "layer_kind")}
    assert told == {
        "quantity": "state_logrms",
        "unit": "activation",
        "step": "100",
        "layer": "2",
        "layer_kind": "mlp",
    }
    assert next(row for row in found if row["run"] == "blocks")["residual_block"] == "1"
    page.until("() => document.querySelectorAll('#data-table tbody tr').length === 24")
    head = page.page.locator("#data-table th").all_inner_texts()
    first = page.page.locator("#data-table tbody tr").first.locator("td").all_inner_texts()
    shown = dict(zip(head, first, strict=True))
    assert (shown["run"], shown["layer kind"], shown["value"]) == ("plain", "attention", "2.25")
    assert page.page.locator("#data-note").inner_text() == "24 rows"
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#data").is_visible()


def test_the_csv_is_the_one_that_the_command_line_writes(
    page: AppPage, address: str, root: Path, tmp_path: Path
) -> None:
    page.open(f"{address}depth?step=100&metric=state_rms")
    ours = rows(saved(page, "profile"))
    runs = [open_run(root / name) for name in ("plain", "blocks", "short")]
    export("depth-profile", runs, tmp_path / "f.csv", quantity="state_rms", step=100)
    theirs = rows(tmp_path / "f.csv")
    assert [{**row, "panel": ""} for row in ours] == [{**row, "panel": ""} for row in theirs]


def test_a_map_of_depth_attention_names_targets_and_sources(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    record_mixing(tmp_path / "full")
    page.open(serve(tmp_path) + "attention?step=100")
    found = rows(saved(page, "attention-1"))
    cells = {(row["part"], row["source_name"], row["target_name"]): row for row in found}
    held = cells["weight", "sublayer 2", "4 MLP"]
    assert float(held["value"]) == pytest.approx(weight(100, 4)[2])
    assert (held["quantity"], held["step"], held["target_kind"]) == ("depth_attention", "100", "mlp")
    share = weight(100, 4)
    assert float(held["entropy"]) == pytest.approx(-(share * np.log(share)).sum() / np.log(4))
    never = cells["weight", "sublayer 8", "4 MLP"]
    assert (never["value"], never["reachable"]) == ("", "false")


def test_the_table_shows_the_first_rows_and_the_csv_all(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    record(tmp_path / "long", steps=range(0, 2000, 10))
    page.open(serve(tmp_path) + "depth")
    path = saved(page, "maps")
    assert len(rows(path)) == 8 * 200
    page.until("() => document.querySelectorAll('#data-table tbody tr').length === 500")
    note = page.page.locator("#data-note").inner_text()
    assert note == "1,600 rows, the first 500 here, all in the CSV"


PANELS = {
    "depth": ("profile", "gradient", "loss", "maps"),
    "boundaries": ("boundary-folded", "boundary-sums", "boundary-reset", "boundary-read"),
    "attention": ("attention-1", "cell-weight", "cell-contribution"),
    "paths": ("arcs",),
    "mixing": ("mixing-1", "mixing-2", "mixing-row", "mixing-series"),
    "outer": ("outer-map", "outer-balance", "outer-gates", "outer-direct"),
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    record(folder / "plain")
    record_mixing(folder / "blocks", block=4)
    record_mixing(folder / "full")
    record_outer(folder / "wide")
    record_origins(folder / "taken-apart")
    record_origins(folder / "with-blocks", design="hires", block=4)
    return folder


@pytest.mark.parametrize("path", PANELS)
def test_every_number_that_is_drawn_is_in_the_csv(
    page: AppPage, serve_session: Serve, kinds: Path, path: str
) -> None:
    page.open(f"{serve_session(kinds)}{path}?step=300")
    for panel in PANELS[path]:
        drawn = page.page.evaluate(
            """(panel) => {
              const gd = document.querySelector(`#graph-${panel} .js-plotly-plot`);
              const flat = (trace) => (trace.type === "heatmap" ? Array.from(trace.z, (row) => Array.from(row)).flat() : Array.from(trace.y));
              return gd._fullData.filter((trace) => ["line", "map", "weight", "contribution", "energy", "embedding", "sublayers", "constant"].includes(trace.meta?.role))
                .flatMap((trace) => flat(trace).map((value) => (gd.layout.meta.log && trace.type === "heatmap" ? 10 ** value : value)))
                .filter(Number.isFinite);
            }""",
            panel,
        )
        if not drawn:
            continue
        held = np.array([float(row["value"]) for row in rows(saved(page, panel)) if row["value"]])
        page.page.keyboard.press("Escape")
        assert held.size, panel
        far = [value for value in drawn if np.abs(held - value).min() > 1e-5 * max(abs(value), 1e-3)]
        assert far == [], panel
