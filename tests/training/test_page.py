"""The viewer's process beside a training: started early, gone with it, and no reason to stop when it fails."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from depthscope.training import page as page_module
from depthscope.training.page import NoPage, Page, free_port


@pytest.fixture
def serve_with(monkeypatch):
    """Let the page's process run a program of the test's own."""

    def serve_with(program):
        monkeypatch.setattr(
            page_module, "serve_command", lambda root, port: [sys.executable, "-c", program, str(port)]
        )

    return serve_with


def wait_until(condition):
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_taken_port_gives_the_next_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        assert first < free_port(first) < first + 100
    assert free_port(first) == first


def test_no_free_port_says_what_to_type():
    with pytest.raises(OSError, match=r"no free port from 70000 on.*--port"):
        free_port(70000)


def test_the_page_is_served_by_the_same_python_from_the_folder_of_the_runs(tmp_path):
    command = page_module.serve_command(tmp_path, 8123)
    assert command == [sys.executable, "-m", "depthscope", "serve", str(tmp_path), "--port", "8123"]


def test_the_page_gets_the_free_port_and_ends_with_the_block(tmp_path, serve_with):
    serve_with("import sys, time; print('port', sys.argv[1], flush=True); time.sleep(60)")
    with Page(tmp_path, 8050) as page:
        assert page.address == f"http://127.0.0.1:{page.port}/"
        wait_until(lambda: f"port {page.port}" in page.log.read_text())
        assert page.trouble() is None
    assert page._process.returncode is not None


def test_a_page_that_fails_says_why_and_where_to_read_on(tmp_path, serve_with):
    serve_with("import sys; sys.exit('no dash here')")
    with Page(tmp_path, 8050) as page:
        assert page.wait() is False
        assert "code 1: no dash here" in page.trouble()
        assert str(tmp_path / "page.log") in page.trouble()


def test_a_page_that_ended_itself_in_peace_is_no_fault(tmp_path, serve_with):
    serve_with("pass")
    with Page(tmp_path, 8050) as page:
        assert page.wait() is True


def test_a_page_that_does_not_listen_to_sigterm_is_ended_all_the_same(tmp_path, serve_with, monkeypatch):
    serve_with(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    monkeypatch.setattr(page_module, "PATIENCE", 0.1)
    with Page(tmp_path, 8050) as page:
        wait_until(lambda: "deaf" in page.log.read_text())
    assert page._process.returncode == -9


def test_without_a_page_there_is_nothing_to_wait_for():
    with NoPage() as page:
        assert (page.address, page.trouble(), page.wait()) == (None, None, True)
