"""What the web app costs: bytes and time of every panel's answer, columns sent, and a step change in the browser.

    python -m benchmarks.dashboard [--steps 10000] [--folder FOLDER]

Two synthetic runs are shown side by side: Block AttnRes of 128 sublayers in 16 blocks of 8, and of 12 sublayers. A
headless Chromium opens every page over the real server; each question that it asks is then put to a Flask test client:
cold (nothing cached, a new app) and warm (the app has answered it before), medians of five. In the browser, a step
change is from the key to the frame in which every panel shows the new step. With --folder, runs that are there already
are taken, and new ones stay there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import Request, sync_playwright

from benchmarks.synthetic import write_run
from depthscope.app import create_app, findings, make_app_server, reading
from depthscope.app.pages import PAGES

REPEATS = 5
MOST_BYTES, MOST_MS, MOST_STEP_MS, MOST_COLUMNS = 1.5e6, 300, 250, 1500
CALLBACKS = "/_dash-update-component"
SETTLED = """() => {
  const ds = window.depthscope;
  if (!ds || !ds.settled || !ds.catalogue.root || !ds.settled()) return false;
  const graphs = [...document.querySelectorAll(".body:not([hidden]) .panel:not([hidden]) .graph")];
  return graphs.every((graph) => graph.querySelector(".js-plotly-plot")?._fullLayout);
}"""
STEP_CHANGE = """(key) => new Promise((resolve) => {
  const before = window.depthscope.resolve().shownStep;
  const started = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const look = () => {
    const ds = window.depthscope;
    if (ds.resolve().shownStep === before || !ds.settled()) return window.requestAnimationFrame(look);
    window.requestAnimationFrame(() => resolve(performance.now() - started));
  };
  look();
})"""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request of the browser, and the page that it was sent from."""

    page: str
    panel: str
    body: Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="depthscope-"))
    try:
        for name, layers, block in (("deep", 128, 8), ("shallow", 12, 4)):
            if not (folder / name).exists():
                write_run(folder / name, layers=layers, block=block, steps=arguments.steps)
        questions, changes = browse(folder)
        report(folder, questions, changes)
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)


def browse(folder: Path) -> tuple[list[Question], dict[str, float]]:
    """Open every page; return what it asked for, and the median time of a step change in ms."""
    server, address = make_app_server(folder, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked: dict[str, Question] = {}
    changes = {}
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for entry in PAGES:
            keep = _keeper(entry.name, asked)
            page.on("request", keep)
            page.goto(f"{address}{entry.name}")
            page.wait_for_function(SETTLED, timeout=120_000)
            page.remove_listener("request", keep)
            changes[entry.name] = step_change(page)
        browser.close()
    server.shutdown()
    return list(asked.values()), changes


def _keeper(page: str, asked: dict[str, Question]) -> Callable[[Request], None]:
    def keep(request: Request) -> None:
        if CALLBACKS not in request.url:
            return
        body = json.loads(request.post_data or "{}")
        panel = body["inputs"][0]["id"].removeprefix("ask-")
        asked[f"{page} {panel}"] = Question(page=page, panel=panel, body=body)

    return keep


def step_change(page: BrowserPage) -> float:
    """Return the median time in ms from an arrow key to the frame that shows the other step."""
    times = []
    for _ in range(REPEATS + 1):
        times.append(float(page.evaluate(STEP_CHANGE, "ArrowLeft")))
        page.wait_for_function(SETTLED)
    return statistics.median(times[1:])


def report(folder: Path, questions: list[Question], changes: Mapping[str, float]) -> None:
    """Put the questions to the server and print the table; an exclamation mark is over a limit."""
    print(f"{'page':<12}{'panel':<20}{'kB':>9}{'columns':>9}{'cold ms':>9}{'warm ms':>9}")
    warm_client = create_app(folder).server.test_client()
    over = 0
    for question in questions:
        cold, answer = [], b""
        for _ in range(REPEATS):
            # Everything that the app keeps between answers.
            reading._CACHE.__init__()  # type: ignore[misc]
            findings._KEPT.clear()
            client = create_app(folder).server.test_client()
            cold.append(_timed(client, question)[0])
        _timed(warm_client, question)
        warm = [_timed(warm_client, question) for _ in range(REPEATS)]
        answer = warm[0][1]
        held = (
            len(answer),
            columns_of(answer),
            statistics.median(cold),
            statistics.median(t for t, _ in warm),
        )
        marks = [
            "!" if value > most else " "
            for value, most in zip(held, (MOST_BYTES, MOST_COLUMNS, MOST_MS, MOST_MS), strict=True)
        ]
        over += marks.count("!")
        size, columns, first, later = held
        print(
            f"{question.page:<12}{question.panel:<20}{size / 1e3:>8.1f}{marks[0]}{columns:>8}{marks[1]}"
            f"{first:>8.0f}{marks[2]}{later:>8.0f}{marks[3]}"
        )
    print(f"\n{'page':<12}{'step change ms':>15}")
    for name, spent in changes.items():
        over += spent > MOST_STEP_MS
        print(f"{name:<12}{spent:>14.0f}{'!' if spent > MOST_STEP_MS else ' '}")
    print(f"\nload average of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{over} over a limit" if over else "all within the limits")


def _timed(client: Any, question: Question) -> tuple[float, bytes]:
    started = time.perf_counter()
    answer = client.post(CALLBACKS, json=question.body, headers={"Host": "127.0.0.1"})
    spent = 1e3 * (time.perf_counter() - started)
    if answer.status_code not in (200, 204):
        raise RuntimeError(f"{question.page} {question.panel}: {answer.status} {answer.text[:200]}")
    return spent, answer.data


def columns_of(answer: bytes) -> int:
    """Return the columns of all maps in an answer, or the points of its longest line."""
    figures = [
        figure
        for outputs in (json.loads(answer or b"{}").get("response") or {}).values()
        if isinstance(figure := outputs.get("figure"), dict) and "data" in figure
    ]
    maps = [
        _sizes(trace["z"])[-1] for figure in figures for trace in figure["data"] if trace["type"] == "heatmap"
    ]
    lines = [
        _sizes(trace["y"])[0]
        for figure in figures
        for trace in figure["data"]
        if "y" in trace and "z" not in trace
    ]
    return max(sum(maps), max(lines, default=0))


def _sizes(values: Any) -> list[int]:
    if isinstance(values, dict):
        shape = values.get("shape")
        itemsize = int(str(values["dtype"])[1:])
        packed = len(values["bdata"]) * 3 // 4 // itemsize
        return [int(part) for part in str(shape).split(",")] if shape else [packed]
    return [len(values), *([len(values[0])] if values and isinstance(values[0], list) else [])]


if __name__ == "__main__":
    main()
