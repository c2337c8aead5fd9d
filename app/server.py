"""`serve`: the app behind werkzeug's threaded server, quiet, and clear about a port in use."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from depthscope.app.application import checked_prefix, create_app

DEFAULT_PORT = 8050
WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class PortInUse(OSError):
    """The port is taken; the message names the way out."""


class _QuietHandler(WSGIRequestHandler):
    """Says nothing about requests: a page that polls would fill the terminal."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        if type == "error":
            super().log(type, message, *args)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return None


def make_app_server(
    root: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    prefix: str = "/",
    allow_hosts: Iterable[str] = (),
) -> tuple[BaseWSGIServer, str]:
    """Return a server that is bound but not yet serving, and the address to open, token included.

    Port 0 takes a free one. PortInUse when it is taken.
    """
    prefix = checked_prefix(prefix)
    app = create_app(root, host=host, prefix=prefix, token=token, allow_hosts=allow_hosts)
    with _listen(host, port) as listening:
        server = make_server(
            host,
            listening.getsockname()[1],
            StripPrefix(app.server.wsgi_app, prefix),
            threaded=True,
            request_handler=_QuietHandler,
            fd=listening.fileno(),
        )
    return server, address(host, server.port, prefix, app.server.config["DEPTHSCOPE_TOKEN"])


def serve(
    root: str | os.PathLike[str],
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    token: str | None = None,
    prefix: str = "/",
    allow_hosts: Iterable[str] = (),
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve the runs below `root` until Ctrl-C; `announce` gets the address (default: it is printed).

    Beyond loopback a token is required; one is made when `token` is None, and it is part of the address.
    """
    server, place = make_app_server(
        root, host=host, port=port, token=token, prefix=prefix, allow_hosts=allow_hosts
    )
    (announce or _print_address)(place)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def address(host: str, port: int, prefix: str, token: str | None) -> str:
    """Return the address to open in a browser."""
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        name = os.uname().nodename if hasattr(os, "uname") else "localhost"
    return f"http://{name}:{port}{prefix}" + (f"?token={token}" if token else "")


class StripPrefix:
    """Take the prefix off a request's path: some proxies leave it there, some do not."""

    def __init__(self, app: WSGIApplication, prefix: str) -> None:
        self._app = app
        self._prefix = prefix.rstrip("/")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            environ["PATH_INFO"] = path[len(self._prefix) :] or "/"
        return self._app(environ, start_response)


def _listen(host: str, port: int) -> socket.socket:
    """Bind before werkzeug does: when the port is taken, it prints words of its own and exits."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            words = f"port {port} of {host} is in use; choose another, or let a free one be found: --port 0"
            raise PortInUse(errno.EADDRINUSE, words) from None
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise OSError(number, f"cannot serve at {host} port {port}: {reason}") from None
    return listening


def _print_address(place: str) -> None:
    print(f"depthscope is at {place} (Ctrl-C ends it)", file=sys.stderr, flush=True)
