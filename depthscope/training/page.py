"""The viewer beside a training process: its own process, so that drawing never slows a step."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
PATIENCE = 5.0
"""Seconds that the page's process has to end by itself."""
_ENDED_ON_REQUEST = (0, 130, -2, -15)


class NoPage:
    """Stands where a page would and serves nothing."""

    address: str | None = None

    def trouble(self) -> str | None:
        """Return why the page is not there; nothing is missing here."""
        return None

    def wait(self) -> bool:
        """Wait for nothing; True as for a page that ended when asked to."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Page(NoPage):
    """`depthscope serve ROOT` in a child process, on `port` or the next free one; leaving the block ends it.

    What the child prints goes to ``page.log`` in the root. Ctrl-C in a terminal reaches the child, too.
    """

    def __init__(self, root: Path, port: int) -> None:
        self.port = free_port(port)
        self.address = f"http://{HOST}:{self.port}/"
        self.log = root / "page.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                serve_command(root, self.port), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def trouble(self) -> str | None:
        """Return why the page is not there, or None while its process runs."""
        code = self._process.poll()
        if code is None:
            return None
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
        return f"the page's process ended with code {code}: {last[0]} (all of it: {self.log})"

    def wait(self) -> bool:
        """Wait until the page's process ends; False when it ended by a fault."""
        return self._process.wait() in _ENDED_ON_REQUEST

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve_command(root: Path, port: int) -> list[str]:
    """Return the command line that shows the runs below `root`."""
    return [sys.executable, "-m", "depthscope", "serve", str(root), "--port", str(port)]


def free_port(first: int) -> int:
    """Return `first`, or the next port on which nothing listens; OSError when a hundred in a row are taken."""
    for port in range(first, min(first + 100, 65536)):
        with socket.socket() as probe:
            # As a server would ask for it: a port whose last connections are fading counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port
    raise OSError(f"no free port from {first} on; choose another with --port")
