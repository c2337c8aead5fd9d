"""A page under test: opens addresses, waits for figures, and reads what plotly really drew."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
from playwright.sync_api import Page

PANELS = ("profile", "gradient", "loss", "maps")
_SETTLED = """() => {
  const ds = window.depthscope;
  if (!ds || !ds.settled || !ds.catalogue.root || !ds.settled()) return false;
  const plots = [...document.querySelectorAll(".body:not([hidden]) .panel:not([hidden]) .graph")];
  return plots.every((graph) => {
    const gd = graph.querySelector(".js-plotly-plot");
    return gd && gd._fullData && gd._fullLayout && gd.layout.meta;
  });
}"""
_COLOURS = """async (data) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width; canvas.height = image.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return new Set(new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer)).size;
}"""


class AppPage:
    """Wraps a Playwright page; `troubles` collects what no test may see."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.troubles: list[str] = []
        page.on("console", lambda message: self._tell(message.type == "error", f"console: {message.text}"))
        page.on("pageerror", lambda error: self._tell(True, f"page: {error} {error.stack}"))
        page.on("request", lambda request: self._tell(_leaves(request.url), f"left: {request.url}"))

    def _tell(self, bad: bool, text: str) -> None:
        if bad:
            self.troubles.append(text)

    def open(self, address: str, *, host: str = "") -> None:
        self.page.goto(address)
        self.settle()

    def settle(self) -> None:
        """Wait until every panel shows what it asked for."""
        self.until(_SETTLED)

    def until(self, predicate: str, argument: Any = None) -> None:
        self.page.wait_for_function(predicate, arg=argument, timeout=60000)

    def state(self) -> dict[str, Any]:
        """What the page's state resolves to, runs by name."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            "() => { const v = depthscope.resolve(); return {...v, runs: v.runs.map((r) => r.name)}; }"
        )

    def ids(self) -> dict[str, str]:
        """Opaque ids by run name."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            "() => Object.fromEntries(depthscope.catalogue.runs.map((run) => [run.name, run.id]))"
        )

    def drawn(self, panel: str, run: str, role: str = "line") -> npt.NDArray[np.float64]:
        """The values of a run's trace as plotly has them, NaN for gaps."""
        values = self.page.evaluate(
            """([panel, run, role]) => {
              const id = depthscope.catalogue.runs.find((entry) => entry.name === run).id;
              const gd = document.querySelector(`#graph-${panel} .js-plotly-plot`);
              const trace = gd._fullData.find((entry) => entry.meta.run === id && entry.meta.role === role);
              const plain = (row) => Array.from(row, (value) => (Number.isFinite(value) ? value : null));
              return trace.type === "heatmap" ? Array.from(trace.z, plain) : plain(trace.y);
            }""",
            [panel, run, role],
        )
        return np.array(values, dtype=np.float64)

    def title(self, panel: str) -> str:
        return self.page.locator(f"#title-{panel}").inner_text()

    def wait_title(self, panel: str, title: str) -> None:
        self.until(
            "([id, text]) => document.getElementById(id).innerText === text", [f"title-{panel}", title]
        )

    def wait_step(self, step: int) -> None:
        """Wait until the profile shows `step` for the run that has gone furthest, then for all panels."""
        self.until(
            """(step) => {
              const meta = document.querySelector("#graph-profile .js-plotly-plot")?.layout?.meta;
              return meta?.steps && Math.max(...Object.values(meta.steps)) === step;
            }""",
            step,
        )
        self.settle()

    def colours(self, selector: str) -> int:
        """How many colours an element is painted in: a blank one has very few."""
        picture = base64.b64encode(self.page.locator(selector).screenshot()).decode()
        return int(self.page.evaluate(_COLOURS, picture))


def _leaves(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https", "ws", "wss") and urlsplit(url).hostname != "127.0.0.1"
