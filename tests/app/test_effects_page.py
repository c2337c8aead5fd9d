"""Effects on the Skip paths page in a browser: points and cells are the sweep's, and what is missing says what to type."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthscope.figures import EffectsOptions, effects_data
from depthscope.report import export
from depthscope.store import open_run
from tests.analysis.sweeps import write_sweep
from tests.app.conftest import Serve
from tests.app.page import AppPage
from tests.figures.mixing_runs import mixing_outline, record_mixing

pytestmark = pytest.mark.browser
LAYOUT = mixing_outline(8)


def changes(scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Each cut costs `scale` hundredths of its target and source in nats, 2 % more in the second batch.

    The widest path, target 4 from the embedding, costs 1e-4 in one batch and gains it in the other.
    """
    out = np.full((9, 9, 2), np.nan)
    for target, columns in enumerate(LAYOUT.sources):
        for source in columns if len(columns) > 1 else ():
            out[target, source] = scale / 100 * (target + source) * np.array([1.0, 1.02])
    out[3, 0] = 1e-4, -1e-4
    return out


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with two sweeps, of zero at 200 and of mean at 130, one without, in a folder called `runs`."""
    folder = tmp_path_factory.mktemp("cut") / "runs"
    for name in ("full", "uncut"):
        record_mixing(folder / name)
    write_sweep(folder / "full", "a", 200, changes(), layout=LAYOUT, note="They agree.")
    write_sweep(folder / "full", "b", 130, changes(2.0), layout=LAYOUT, mode="mean")
    return folder


@pytest.fixture(scope="module")
def place(cut: Path, serve_session: Serve) -> str:
    return serve_session(cut)


def at(page: AppPage, place: str, *names: str, query: str = "") -> None:
    page.open(f"{place}paths")
    ids = page.ids()
    page.open(f"{place}paths?runs={','.join(ids[name] for name in names)}&{query}")


def points(page: AppPage) -> dict[str, list[list[float]]]:
    """The points of each kind as plotly has them: x, y, place."""
    return page.page.evaluate(  # type: ignore[no-any-return]
        """() => Object.fromEntries(document.querySelector("#graph-effects .js-plotly-plot")._fullData.map((trace) =>
          [trace.meta.role, Array.from(trace.x, (x, i) => [x, trace.y[i], trace.customdata[i]])]))"""
    )


def test_points_and_the_tables_column_are_the_sweeps(page: AppPage, place: str, cut: Path) -> None:
    at(page, place, "full", query="scale=linear")
    run = open_run(cut / "full")
    array = effects_data([run], EffectsOptions()).arrays[run.id]
    shown = array["shown"].values
    drawn = np.array([point for kind in points(page).values() for point in kind])
    assert drawn.shape == (36, 3)
    np.testing.assert_allclose(np.sort(drawn[:, 1]), np.sort(array.values[shown]), rtol=1e-6)
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(array["weight"].values[shown]), rtol=1e-6)
    assert page.page.locator("#table-paths thead th").last.inner_text() == "loss change when cut"
    effects = page.page.locator("#table-paths tbody tr td:last-child").all_inner_texts()
    # Target 4, the widest, then 5 to 9, each from the embedding: 1.01 hundredths of its row, counted from 0.
    assert [text.split(" ± ")[0] for text in effects] == [
        "+0.0000",
        *(f"{0.0101 * row:+.4f}" for row in range(4, 9)),
    ]
    assert page.page.locator("#key-paths").inner_text() == "loss change when cut: zero, step 200, 2 batches"
    assert page.colours("#panel-effects .panel-body") > 20


def test_what_disagrees_is_marked_counted_and_named(page: AppPage, place: str) -> None:
    at(page, place, "full")
    drawn = points(page)
    assert len(drawn["free"]) == 1
    # The tenth of 36 are those above 12.5 hundredths: 15, 14, 13 of the last row and 13 of the one before, all narrow.
    assert len(drawn["costly"]) == 4
    keys = page.page.locator("#key-effects")
    assert keys.inner_text().split("\n") == ["1 wide, no cost seen", "4 narrow, costs much"]
    assert "tenth" in (keys.locator(".key").first.get_attribute("title") or "")
    said = " ".join(page.page.locator("#overlay-effects .effect-line").all_inner_texts())
    assert "rank correlation of effect with weight" in said
    assert "over 36 pairs" in said
    assert "pairs of reads with 2 sources or more, at distance 2 or more" in said
    assert "Zero and renormalise agree where a mix feeds only an RMSNorm" in said
    spot = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-effects .js-plotly-plot");
          const { left, top } = gd.getBoundingClientRect();
          const { xaxis, yaxis } = gd._fullLayout;
          const trace = gd._fullData.find((entry) => entry.meta.role === "free");
          return [left + xaxis._offset + xaxis.l2p(trace.x[0]), top + yaxis._offset + yaxis.l2p(trace.y[0])];
        }"""
    )
    page.page.mouse.move(*spot)
    page.until("() => !document.getElementById('tooltip').hidden")
    words = page.page.locator("#tooltip").inner_text()
    assert "4 MLP without embedding, distance 4 sublayers" in words
    assert "nats a token: wide, no cost seen" in words
    assert "zero, step 200" in words
    page.page.mouse.click(*spot)
    page.settle()
    assert "/attention?" in page.page.url
    assert page.page.url.endswith(":4:0")


@pytest.mark.parametrize("width", [1440, 1280])
def test_all_text_over_the_scatter_is_readable(page: AppPage, place: str, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 800})
    at(page, place, "full", query="step=130&cut=zero")
    panel = page.page.locator("#panel-effects .panel-body").bounding_box()
    plot = page.page.evaluate(
        """() => {
          const gd = document.querySelector("#graph-effects .js-plotly-plot");
          return gd.getBoundingClientRect().top + gd._fullLayout._size.t;
        }"""
    )
    assert panel is not None
    lines = page.page.locator("#overlay-effects .effect-line").all()
    assert lines[-1].inner_text().endswith("measured at step 200, page at 130")
    for line in lines:
        box = line.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= panel["x"] + panel["width"], line.inner_text()
        assert box["y"] + box["height"] <= plot, "no text lies in the plot"


def test_a_damaged_chunk_leaves_what_needs_no_sweep(page: AppPage, serve: Serve, tmp_path: Path) -> None:
    record_mixing(tmp_path / "run")
    store = write_sweep(tmp_path / "run", "a", 200, changes(), layout=LAYOUT)
    (store.path / "loss_change" / "c.5.0.1").write_bytes(b"10 bytes..")
    told = "sweep a of run run is damaged: loss_change/c.5.0.1: a chunk file is 10 bytes long"
    place = serve(tmp_path)
    page.open(f"{place}paths")
    assert page.page.locator("#empty-effects").inner_text() == f"{told}."
    assert page.page.locator("#table-paths tbody tr").count() == 6
    assert page.page.locator("#warning-paths").text_content() == told
    assert page.colours("#panel-arcs .panel-body") > 20
    page.open(f"{place}attention")
    assert page.page.locator("#warning-attention-1").text_content() == told
    assert page.colours("#panel-attention-1 .panel-body") > 20
    assert page.page.locator("#table-distant tbody tr").count() > 0


def test_axis_mode_and_step_choose_what_is_shown(page: AppPage, place: str, cut: Path) -> None:
    asked: list[str] = []
    at(page, place, "full", query="step=150&scale=linear")
    assert "mean, step 130" in page.page.locator("#overlay-effects").inner_text(), "the nearest to 150"
    elsewhere = page.page.locator("#overlay-effects .elsewhere")
    assert elsewhere.inner_text() == "measured at step 130, page at 150"
    assert page.page.locator("#warning-paths").inner_text() == f"effects {elsewhere.inner_text()}"
    page.page.on("request", lambda request: asked.append(request.post_data or ""))
    page.page.keyboard.press("ArrowRight")
    page.settle()
    assert elsewhere.inner_text() == "measured at step 130, page at 160"
    assert any('"ask-paths"' in body for body in asked)
    assert not any('"ask-effects"' in body for body in asked), "no other sweep, so nothing is asked for"
    page.page.keyboard.press("ArrowRight")
    page.settle()
    assert "zero, step 200" in page.page.locator("#overlay-effects").inner_text(), "170 is nearer to 200"
    page.page.locator('select[data-name="cut"]').select_option("zero")
    page.page.get_by_role("button", name="Contribution").click()
    page.settle()
    assert page.title("effects") == "Effect against contribution"
    run = open_run(cut / "full")
    array = effects_data([run], EffectsOptions(step=170, cut="zero")).arrays[run.id]
    drawn = np.array([point for kind in points(page).values() for point in kind])
    expected = array["contribution"].values[array["shown"].values]
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(expected), rtol=1e-6)
    assert "against=contribution" in page.page.url
    assert "cut=zero" in page.page.url


def test_without_a_sweep_the_panel_says_what_to_type_and_the_table_has_no_column(
    page: AppPage, place: str
) -> None:
    at(page, place, "uncut", query="cut=mean")
    words = page.page.locator("#empty-effects").inner_text()
    assert "No effect is measured. Weights describe routing" in words
    assert "depthscope causal runs/uncut --mode mean --checkpoint FILE --model MODULE:FACTORY" in words
    assert page.page.locator("#table-paths thead th").last.inner_text() == "in runs"
    at(page, place, "full", "uncut")
    assert page.page.locator("#warning-effects").inner_text() == "uncut: no effect is measured"


def test_effects_come_to_an_open_page_while_they_are_measured(
    page: AppPage, serve: Serve, tmp_path: Path
) -> None:
    record_mixing(tmp_path / "run")
    (tmp_path / "run" / "checkpoints").mkdir()
    page.open(f"{serve(tmp_path)}paths")
    command = page.page.locator("#empty-effects code").inner_text()
    assert command == f"depthscope causal {tmp_path.name}/run", "a demo's checkpoint needs no more"
    write_sweep(tmp_path / "run", "a", 200, changes(), layout=LAYOUT)
    page.until("() => document.querySelectorAll('#table-paths thead th').length === 11")
    page.settle()
    assert len(points(page)["plain"]) == 31


def test_the_finding_about_effects_leads_to_the_skip_paths_page(page: AppPage, place: str) -> None:
    page.open(f"{place}overview")
    line = page.page.locator(".finding-line", has_text="costliest to cut")
    assert "of the 8 widest skip paths" in line.inner_text()
    line.locator("[data-action=evidence]").click()
    page.settle()
    assert "/paths?" in page.page.url
    shown = page.page.locator("#findings .finding:not([hidden])")
    assert "costliest to cut" in shown.inner_text()


def test_the_export_saves_the_effects_that_the_command_line_writes(
    page: AppPage, place: str, cut: Path, tmp_path: Path
) -> None:
    at(page, place, "full", query="against=contribution&cut=mean")
    page.page.locator("#export-button").click()
    page.page.locator('#export [data-of="paths"] select').select_option("effects")
    page.page.locator('select[data-name="form"]').select_option("csv")
    with page.page.expect_download() as download:
        page.page.locator('[data-action="save-export"]').click()
    archive = zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes()))
    export("effects", open_run(cut / "full"), tmp_path / "effects.csv", against="contribution", cut="mean")
    assert archive.read("effects.csv") == (tmp_path / "effects.csv").read_bytes()
    told = json.loads(archive.read("effects.json"))
    assert told["command"] == (
        "depthscope export full --figure effects --option cut=mean --option against=contribution "
        "-o effects.csv --width column"
    )
    (rows,) = next(iter(told["panels"].values()))["rows"].values()
    assert (rows["sweep"], rows["mode"], rows["steps"]) == ("b", "mean", [130])
    assert not page.page.locator('#export [data-of="attention"]').is_visible()
