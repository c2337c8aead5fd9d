"""From a training loop to a picture: the page over runs that were really trained, and over one that is training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from depthscope.store import Run, open_run
from tests.app.page import AppPage

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]


def profile(run: Run, step: int) -> np.ndarray:
    """What the default curve shows: the size of the typical token's state over depth."""
    return np.exp(run["state_logrms"].sel(step=step).values.astype(np.float64))


def only(page: AppPage, *names: str) -> None:
    """Select these runs and no others."""
    for name in set(page.state()["runs"]) ^ set(names):
        page.page.get_by_role("checkbox", name=f"Show {name}").click()
    page.settle()


def test_two_trained_runs_at_a_chosen_step_and_the_link_to_it(
    page: AppPage, serve: Callable[[Path], str], demo_runs: Path
) -> None:
    page.open(f"{serve(demo_runs)}depth")
    assert set(page.state()["runs"]) == {"prenorm", "full-attnres", "block-attnres", "hires"}
    only(page, "prenorm", "block-attnres")
    step = page.page.locator("#step-input")
    step.fill("37")
    step.press("Enter")
    page.wait_step(37)
    for name in ("prenorm", "block-attnres"):
        run = open_run(demo_runs / name)
        np.testing.assert_allclose(page.drawn("profile", name), profile(run, 37), rtol=1e-6)
        np.testing.assert_allclose(
            page.drawn("gradient", name), run["grad_write_rms"].sel(step=37).values, rtol=1e-6
        )
        np.testing.assert_allclose(page.drawn("loss", name), run["validation"].values, rtol=1e-6)
        drawn = page.drawn("maps", name, "map")
        np.testing.assert_allclose(drawn, np.log10(np.exp(run["state_logrms"].values.T)), atol=1e-5)
    link = page.page.url
    page.page.goto("about:blank")
    page.open(link)
    assert set(page.state()["runs"]) == {"prenorm", "block-attnres"}
    assert step.input_value() == "37"
    np.testing.assert_allclose(
        page.drawn("profile", "prenorm"), profile(open_run(demo_runs / "prenorm"), 37), rtol=1e-6
    )
    assert all(page.colours(f"#panel-{panel} .panel-body") > 20 for panel in ("profile", "gradient", "maps"))
    page.page.locator("#panel-maps").hover()
    assert page.page.get_by_text("upload").count() == 0
    assert page.page.locator("[data-title*='cloud' i], [data-title*='share' i]").count() == 0


def test_a_loop_of_ones_own_grows_on_the_page_while_it_trains(
    page: AppPage, serve: Callable[[Path], str], tmp_path: Path
) -> None:
    script = [
        sys.executable,
        str(ROOT / "examples" / "own_loop.py"),
        str(tmp_path / "mine"),
        "--steps",
        "100000",
    ]
    process = subprocess.Popen(
        script, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    try:
        page.page.goto(f"{serve(tmp_path)}depth")
        page.until("() => depthscope.catalogue.runs?.some((run) => run.name === 'mine' && run.last_step > 4)")
        page.settle()
        first = page.drawn("maps", "mine", "map").shape[1]
        page.until(
            """(columns) => {
              const gd = document.querySelector("#graph-maps .js-plotly-plot");
              const map = gd && gd._fullData && gd._fullData.find((trace) => trace.meta.role === "map");
              return map && map.z[0].length > columns + 4;
            }""",
            first,
        )
        assert open_run(tmp_path / "mine").status == "live"
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    page.until("() => depthscope.catalogue.runs.every((run) => run.status === 'stopped')")
    run = open_run(tmp_path / "mine")
    last = int(run["state_logrms"].step.values[-1])
    page.wait_step(last)
    np.testing.assert_allclose(page.drawn("profile", "mine"), profile(run, last), rtol=1e-6)
    assert len(run.sublayers) == 12
    assert [each.kind for each in run.sublayers] == ["attention", "mlp"] * 6


def test_the_run_page_tells_what_each_site_of_a_real_run_gave(
    page: AppPage, serve: Callable[[Path], str], demo_runs: Path
) -> None:
    page.open(f"{serve(demo_runs)}run")
    page.page.locator('[data-action="focus-run"]', has_text="block-attnres").click()
    page.settle()
    rows = page.page.locator("#table-sites tbody tr").all_inner_texts()
    assert any(row.startswith("write\tlayers 1-16\t") and "write_rms" in row for row in rows)
    assert any(row.startswith("mixer\ttargets 2-17\tdepth_attention") for row in rows)
    assert any("it has one source only" in row for row in rows), "the first target's entropy"
