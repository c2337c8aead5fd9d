"""What goes to the browser stays small: 1.5 MB and 1,500 columns an answer, however many steps there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash

from benchmarks.dashboard import MOST_BYTES, MOST_COLUMNS, columns_of
from benchmarks.synthetic import write_run
from depthscope.app import create_app
from depthscope.app.pages import PAGES
from depthscope.store import open_run
from tests.analysis.sweeps import write_lens, write_sweep

HOST = {"Host": "127.0.0.1"}
PANELS = [(page.name, panel) for page in PAGES for panel in page.panels]
SHARED = ("timeline", "findings")


def ids(app: Dash) -> list[str]:
    layout = app.server.test_client().get("/_dash-layout", headers=HOST).json
    return [run["id"] for run in layout["props"]["children"][0]["props"]["data"]["runs"]]


def answer(app: Dash, panel: str, question: dict[str, Any]) -> bytes:
    """Put a question to the callback behind a panel, as the page does."""
    asked = f"ask-{panel}"
    (output,) = (
        name
        for name, entry in app.callback_map.items()
        if entry["inputs"] == [{"id": asked, "property": "data"}]
    )
    places = [place.rpartition(".") for place in output.strip(".").split("...")]
    outputs = [{"id": name, "property": prop} for name, _, prop in places]
    body = {
        "output": output,
        "outputs": outputs if output.startswith("..") else outputs[0],
        "inputs": [{"id": asked, "property": "data", "value": {**question, "panel": panel}}],
        "changedPropIds": [f"{asked}.data"],
    }
    response = app.server.test_client().post("/_dash-update-component", json=body, headers=HOST)
    assert response.status_code == 200, response.text
    return response.data


def question(app: Dash, page: str, **more: Any) -> dict[str, Any]:
    runs = ids(app)
    return {"runs": runs, "shown": runs[0], "base": runs[-1], "focus": runs[0], "page": page, **more}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Dash:
    """A run of 128 sublayers and one of 12, more rows than columns may go to the browser."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "deep", layers=128, block=8, steps=1600, every_slow=4)
    write_run(folder / "shallow", layers=12, block=4, steps=1600, every_slow=1)
    for name in ("deep", "shallow"):
        cut(folder / name)
    return create_app(folder)


def cut(path: Path) -> None:
    """Give a run a sweep of effects and a lens, each of four batches."""
    layout = open_run(path).layout
    change = np.full((len(layout.sources), len(layout.source_names), 4), np.nan)
    for target, columns in enumerate(layout.sources):
        for source in columns:
            change[target, source] = np.sin(target + 3 * source + np.arange(4) / 10)
    write_sweep(path, "sources", 1500, change, layout=layout)
    write_lens(path, "lens", 1500, layout, batches=4)


@pytest.mark.parametrize(("page", "panel"), PANELS + [("depth", name) for name in SHARED])
def test_an_answer_is_within_the_limits(app: Dash, page: str, panel: str) -> None:
    shown = answer(app, panel, question(app, page, cell=[9, 0]))
    assert len(shown) <= MOST_BYTES
    assert columns_of(shown) <= MOST_COLUMNS


@pytest.mark.parametrize("pins", [[], [0, 100, 200, 300, 400]])
@pytest.mark.parametrize("metric", ["state_rms", "grad_write_rms"])
def test_pins_and_quantities_keep_within_the_limits(app: Dash, metric: str, pins: list[int]) -> None:
    shown = answer(app, "profile", question(app, "depth", metric=metric, pins=pins))
    assert len(shown) <= MOST_BYTES


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Dash]:
    apps = {}
    for steps in (2000, 6000):
        folder = tmp_path_factory.mktemp(f"steps-{steps}")
        write_run(folder / "run", layers=12, block=4, steps=steps, every_slow=1)
        apps[steps] = create_app(folder)
    return apps


@pytest.mark.parametrize(("page", "panel"), PANELS + [("depth", name) for name in SHARED])
def test_three_times_the_steps_take_no_more_bytes(lengths: dict[int, Dash], page: str, panel: str) -> None:
    short, long = (len(answer(app, panel, question(app, page, cell=[9, 0]))) for app in lengths.values())
    assert long <= 1.25 * short + 200, "other bins and more digits of steps, and no more"


def test_the_columns_of_a_figure_are_counted() -> None:
    packed = '{"dtype": "f4", "bdata": "AAAAAAAAAAAAAAAA", "shape": "1, 3"}'
    trace = f'{{"type": "heatmap", "z": {packed}, "y": [1]}}'
    line = '{"type": "scatter", "y": {"dtype": "f8", "bdata": "AAAAAAAAAAAAAAAAAAAAAA=="}}'
    body = f'{{"response": {{"graph": {{"figure": {{"data": [{trace}, {trace}, {line}]}}}}}}}}'
    assert columns_of(body.encode()) == 6
