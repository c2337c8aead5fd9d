"""Every test runs strict and on one thread; all browser tests of a worker share one browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

os.environ["DEPTHSCOPE_STRICT"] = "1"
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, else the one that Playwright downloaded; in CI there has to be one."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or playwright.chromium.executable_path
        if not Path(path).exists():
            message = "no Chromium: install Debian's package chromium, or run `playwright install chromium`"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()
