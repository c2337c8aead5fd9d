"""Opens an HTML file in headless Chromium and prints, as JSON, what a reader's browser would see.

A process of its own: Playwright's blocking interface runs once a process, and the app's tests have theirs.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def look(file: Path) -> dict[str, object] | None:
    """Return errors, requests, charts and buttons of the page; None without a Chromium."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        if not Path(path).exists():
            return None
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        errors: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_function(
            "[...document.querySelectorAll('.js-plotly-plot')].every(one => one._fullData)"
        )
        values = "[...document.querySelectorAll('.js-plotly-plot')].map(one => [...one._fullData[0].y])"
        buttons = page.locator(".modebar-btn").evaluate_all("all => all.map(one => one.dataset.title)")
        found = {"errors": errors, "requests": requests, "buttons": buttons, "values": page.evaluate(values)}
        browser.close()
        return found


if __name__ == "__main__":
    print(json.dumps(look(Path(sys.argv[1]))))
