"""The app over real stores, served from this process, and a page that tells of every error it saw."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from depthscope.app import make_app_server
from tests.app.page import AppPage
from tests.figures.runs import record

Serve = Callable[..., str]
SCHEDULE = {"warmup": 30, "decay_start": 240, "total": 300}


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs: one stream, residual blocks of 4, and one that ended at step 200."""
    folder = tmp_path_factory.mktemp("runs")
    record(folder / "plain", config={"schedule": SCHEDULE})
    record(folder / "blocks", block=4, scale=2.0)
    record(
        folder / "short",
        scale=0.5,
        steps=range(0, 201, 10),
        arrays=("state_rms", "state_logrms", "grad_write_rms"),
    )
    return folder


@pytest.fixture(scope="session")
def serve_session() -> Iterator[Serve]:
    yield from _served()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return ``serve(root, **options)``: the address of a server that ends with the test."""
    yield from _served()


@pytest.fixture(scope="session")
def address(root: Path, serve_session: Serve) -> str:
    return serve_session(root)


@pytest.fixture(scope="session")
def light(browser: Browser) -> Iterator[BrowserContext]:
    """One context for all tests: scripts are fetched and compiled once."""
    context = browser.new_context(color_scheme="light")
    yield context
    context.close()


@pytest.fixture
def page(light: BrowserContext, serve: Serve) -> Iterator[AppPage]:
    """A light page of 1440x900; at the end of the test it must have seen no error and no foreign request.

    It comes after `serve`, so that it is closed before the server that it polls.
    """
    shown = AppPage(light.new_page())
    shown.page.set_viewport_size({"width": 1440, "height": 900})
    yield shown
    shown.page.close()
    assert shown.troubles == []


def _served() -> Iterator[Serve]:
    running = []

    def start(root: Path, **options: object) -> str:
        server, place = make_app_server(root, port=0, **options)  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        running.append((server, thread))
        return place

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()
