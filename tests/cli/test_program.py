"""The program as a whole: help, versions, words it does not know, interruptions, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from depthscope.cli import main
from depthscope.cli.command import Command
from depthscope.cli.program import COMMANDS
from tests.cli.conftest import Type, environment


def test_every_command_is_listed_and_has_help_with_examples(typed: Type) -> None:
    overview = typed("--help")
    assert overview.code == 0
    rooms = {
        "demo",
        "serve",
        "export",
        "ls",
        "summary",
        "compare",
        "inspect",
        "check",
        "recover",
        "watch",
        "causal",
        "doctor",
    }
    assert set(COMMANDS) == rooms
    for name, command in COMMANDS.items():
        assert f"  {name}" in overview.out
        assert command.summary in overview.out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_a_command_shows_what_to_type(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: depthscope {name}" in text
    examples = text.partition("examples:")[2]
    assert examples.count("depthscope ") >= 2


def test_without_a_command_the_help_is_shown_and_the_code_says_it_was_not_understood(typed: Type) -> None:
    found = typed()
    assert found.code == 2
    assert "usage: depthscope COMMAND" in found.out


def test_version_names_the_program(typed: Type) -> None:
    found = typed("--version")
    assert found.code == 0
    assert found.out.startswith("depthscope ")


@pytest.mark.parametrize(
    ("words", "contained"),
    [
        (("sumary",), ["'sumary'", "did you mean summary?", "depthscope --help"]),
        (
            ("zzz",),
            [
                "'zzz'",
                "demo, serve, export, ls, summary, compare, inspect, check, recover, watch, causal, doctor",
            ],
        ),
        (("--verison",), ["'--verison'", "--version"]),
        (("ls", "--recursive"), ["--recursive", "depthscope ls --help"]),
        (("demo", "--stepz", "3"), ["--stepz", "did you mean --steps"]),
        (("demo", "--steps", "many"), ["--steps", "'many'", "whole number, 1 or more"]),
        (("demo", "--steps", "0"), ["--steps", "found 0", "1 or more"]),
        (("serve", "--port", "99999"), ["--port", "99999", "0 to 65535"]),
        (("summary",), ["RUN", "depthscope summary --help"]),
    ],
)
def test_a_command_line_that_cannot_be_understood(
    words: tuple[str, ...], contained: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    for part in contained:
        assert part in caught.err
    assert len(caught.err.splitlines()) <= 4


def _instead_of_ls(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(arguments: object) -> int:
        raise error

    plain = Command(
        name="ls", summary="", description="", examples=(), add_arguments=lambda parser: None, run=run
    )
    monkeypatch.setitem(COMMANDS, "ls", plain)


def test_ctrl_c_ends_with_130_and_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _instead_of_ls(monkeypatch, KeyboardInterrupt())
    assert main(["ls"]) == 130
    assert capsys.readouterr().err == ""


def test_a_fault_of_the_program_is_told_as_such_and_can_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _instead_of_ls(monkeypatch, RuntimeError("the cat"))
    assert main(["ls"]) == 1
    told = capsys.readouterr().err
    assert "by a fault of its own: RuntimeError: the cat" in told
    assert "Traceback" not in told
    monkeypatch.setenv("DEPTHSCOPE_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="the cat"):
        main(["ls"])


def test_an_error_of_the_operating_system_names_its_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _instead_of_ls(monkeypatch, PermissionError(13, "Permission denied", "/root/runs"))
    assert main(["ls"]) == 1
    assert "Permission denied: /root/runs" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_met_with_silence(runs: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "depthscope", "ls", str(runs)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert told == b""


HEAVY = ("torch", "dash", "plotly", "flask", "matplotlib", "nnsight", "transformers")


@pytest.mark.parametrize("command", ["ls", "summary"])
def test_looking_at_runs_in_a_terminal_loads_neither_torch_nor_the_app(command: str, runs: Path) -> None:
    code = (
        "import sys\nfrom depthscope.cli import main\n"
        f"assert main([{command!r}, {str(runs / 'flat')!r}]) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"


def test_help_loads_not_even_numpy() -> None:
    code = (
        "import sys\nfrom depthscope.cli import main\nmain(['demo', '--help'])\n"
        "print([name for name in ('numpy', 'zarr', 'xarray', 'rich', 'torch', 'dash') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"
