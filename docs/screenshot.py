"""Make the pictures of README.md: train the demo's runs, serve them, photograph two pages.

make screenshot                          # trains first, several minutes
python docs/screenshot.py RUNS           # from a folder that holds the demo's runs already
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from depthscope.app import make_app_server
from depthscope.training import DemoOptions, run_demo

DRAWN = """() => {
  const { settled, catalogue } = window.depthscope ?? {};
  const graphs = [...document.querySelectorAll(".body:not([hidden]) .panel:not([hidden]) .graph")];
  const drawn = (graph) => graph.querySelector(".js-plotly-plot")?._fullData?.length;
  return settled && catalogue.root && settled() && graphs.length && graphs.every(drawn);
}"""
PAGES = {
    "screenshot.png": "depth?pins=30,100&step=240&focus={block}",
    "screenshot-attention.png": "attention?step=290",
}


def photograph(runs: Path, folder: Path) -> None:
    """Write the Depth profile page over `runs`, two steps pinned, and the Depth attention page into `folder`."""
    server, address = make_app_server(runs, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(f"{address}depth")
        page.wait_for_function(DRAWN)
        block = page.evaluate("depthscope.catalogue.runs.find((run) => run.name === 'block-attnres').id")
        for name, query in PAGES.items():
            page.goto(address + query.format(block=block))
            page.wait_for_function(DRAWN)
            page.screenshot(path=folder / name)
        browser.close()
    server.shutdown()


def main() -> int:
    folder = Path(__file__).parent
    if len(sys.argv) > 1:
        photograph(Path(sys.argv[1]), folder)
        return 0
    with tempfile.TemporaryDirectory(prefix="depthscope-") as made:
        runs = Path(made) / "runs"
        code = run_demo(DemoOptions(out=runs, serve=False))
        if code == 0:
            photograph(runs, folder)
        return code


if __name__ == "__main__":
    sys.exit(main())
