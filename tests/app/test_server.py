"""Starting the server: addresses, a port in use, proxies."""

from __future__ import annotations

import http.client
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from depthscope.app import PortInUse, create_app, make_app_server, serve
from depthscope.app.server import StripPrefix, address
from depthscope.store import RunError
from tests.app.conftest import Serve


def test_a_port_in_use_is_named_with_the_way_out(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} of 127.0.0.1 is in use.*--port 0"):
            make_app_server(root, port=port)
    assert capsys.readouterr() == ("", "")


def test_serve_announces_its_address_and_ends_quietly_with_ctrl_c(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("werkzeug.serving.BaseWSGIServer.serve_forever", interrupted)
    serve(root, port=0, announce=told.append)
    assert urlsplit(told[0]).hostname == "127.0.0.1"
    assert capfd.readouterr() == ("", "")


def test_the_server_says_nothing_about_requests(
    serve: Serve, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = urlsplit(serve(root))
    connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=10)
    for _ in range(2):
        connection.request("GET", "/tokens.css")
        assert b"--run-1" in connection.getresponse().read()
    connection.close()
    assert capfd.readouterr() == ("", "")


def test_requests_are_answered_side_by_side(serve: Serve, root: Path) -> None:
    place = urlsplit(serve(root))
    slow = socket.create_connection(("127.0.0.1", place.port or 0), timeout=10)
    slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    done = threading.Event()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=10)
        connection.request("GET", "/tokens.css")
        if connection.getresponse().read():
            done.set()
        connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(timeout=10)
    slow.close()
    assert done.is_set()


@pytest.mark.parametrize(
    ("host", "token", "expected"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8050/"),
        ("::1", None, "http://[::1]:8050/"),
        ("192.0.2.7", "secret", "http://192.0.2.7:8050/?token=secret"),
    ],
)
def test_the_address_to_open(host: str, token: str | None, expected: str) -> None:
    assert address(host, 8050, "/", token) == expected


@pytest.mark.parametrize("kept", [True, False])
def test_a_proxy_may_leave_the_prefix_or_take_it_off(root: Path, kept: bool) -> None:
    app = create_app(root, prefix="proxy/8050")
    app.server.wsgi_app = StripPrefix(app.server.wsgi_app, "/proxy/8050/")
    answer = app.server.test_client().get(
        "/proxy/8050/depth" if kept else "/depth", headers={"Host": "localhost"}
    )
    assert answer.status_code == 200
    assert '"/proxy/8050/assets/state.js' in answer.get_data(as_text=True)


def test_a_root_that_is_no_folder_and_a_prefix_that_is_no_path_are_refused(
    root: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="does not exist"):
        create_app(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"/proxy/8050/"):
        create_app(root, prefix="/a?b")
