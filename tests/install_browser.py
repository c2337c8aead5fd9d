"""Make sure that the browser tests have a Chromium: Debian's, else Playwright's own, else say what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def found() -> bool:
    if shutil.which("chromium"):
        return True
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return os.path.exists(playwright.chromium.executable_path)


def main() -> int:
    if found():
        return 0
    if os.name == "posix" and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-liberation"],
            check=False,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        )
    if not found():
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    if found():
        return 0
    message = "no Chromium for the browser tests: install Debian's package `chromium`, or run `playwright install chromium`"
    print(message, file=sys.stderr)
    # Without CI the other tests still run, and the browser tests say the same.
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
