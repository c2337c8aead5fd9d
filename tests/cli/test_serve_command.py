"""`depthscope serve`: it serves, ends with Ctrl-C, and says what is in its way."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from depthscope.cli import main
from tests.cli.conftest import Type, environment


def test_it_prints_the_address_serves_and_ends_quietly_with_ctrl_c(runs: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "depthscope", "serve", str(runs), "--port", "0"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("depthscope is at http://127.0.0.1:"), line + process.stderr.read()
        with urllib.request.urlopen(line.split()[3], timeout=20) as answer:
            assert answer.status == 200
            assert b"depthscope" in answer.read()
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_a_port_in_use_is_named_with_one_to_type(typed: Type, runs: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        found = typed("serve", runs, "--port", str(number))
    assert found.code == 1
    assert f"port {number}" in found.err
    advised = re.search(rf"depthscope serve {re.escape(str(runs))} --port (\d+)", found.err)
    assert advised is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", int(advised[1])))  # what is advised can be taken


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("missing-folder",), 2, ["missing-folder does not exist"]),
        (("notes.txt",), 2, ["notes.txt is a file"]),
        (("one", "two"), 2, ["found 2: one, two", "depthscope serve "]),
        (("one", "--prefix", "a b"), 2, ["'a b'", "/proxy/8050/"]),
        (("one", "--host", "203.0.113.7", "--token", "short"), 2, ["token", "16"]),
        (("one", "--host", "203.0.113.7", "--port", "8059"), 1, ["203.0.113.7", "8059"]),
        ((), 2, ["neither runs nor demo-runs"]),
    ],
)
def test_what_cannot_be_served(
    words: tuple[str, ...],
    code: int,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert main(["serve", *words]) == code
    text = capsys.readouterr().err
    for part in told:
        assert part in text
