"""Make docs/screenshot.png: train the demo's runs, serve them, photograph the page.

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

DRAWN = """() => ["profile", "gradient", "loss", "maps"].every((panel) => {
  const graph = document.querySelector(`#graph-${panel} .js-plotly-plot`);
  return graph && graph._fullData && graph._fullData.length && !window.depthscope.busy(panel);
})"""


def photograph(runs: Path, picture: Path) -> None:
    """Write the Depth profile page over `runs`, with three steps pinned, to `picture`."""
    server, address = make_app_server(runs, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(address)
        page.wait_for_function(DRAWN)
        block = page.evaluate("depthscope.catalogue.runs.find((run) => run.name === 'block-attnres').id")
        page.goto(f"{address}depth?pins=30,100&step=240&focus={block}")
        page.wait_for_function(DRAWN)
        page.screenshot(path=picture)
        browser.close()
    server.shutdown()


def main() -> int:
    picture = Path(__file__).with_name("screenshot.png")
    if len(sys.argv) > 1:
        photograph(Path(sys.argv[1]), picture)
        return 0
    with tempfile.TemporaryDirectory(prefix="depthscope-") as folder:
        runs = Path(folder) / "runs"
        code = run_demo(DemoOptions(out=runs, serve=False))
        if code == 0:
            photograph(runs, picture)
        return code


if __name__ == "__main__":
    sys.exit(main())
