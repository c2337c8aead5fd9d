"""The program: picks the subcommand, turns errors into a few lines on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from depthscope.cli.causal import CAUSAL
from depthscope.cli.check import CHECK
from depthscope.cli.command import Command, parser_of
from depthscope.cli.compare import COMPARE
from depthscope.cli.demo import DEMO
from depthscope.cli.doctor import DOCTOR
from depthscope.cli.errors import IN_THE_WAY, CliError, UsageError, did_you_mean, os_error_text
from depthscope.cli.export import EXPORT
from depthscope.cli.inspect import INSPECT
from depthscope.cli.ls import LS
from depthscope.cli.recover import RECOVER
from depthscope.cli.serve import SERVE
from depthscope.cli.summary import SUMMARY
from depthscope.cli.version import version_text
from depthscope.cli.watch import WATCH

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (DEMO, SERVE, EXPORT, LS, SUMMARY, COMPARE, INSPECT, CHECK, RECOVER, WATCH, CAUSAL, DOCTOR)
}
INTERRUPTED = 130
CLOSED_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the program's own) and return its exit code.

    0 done, 1 what was asked for failed, 2 a word of the command line means nothing, 130 interrupted. Errors go to stderr
    without a traceback; DEPTHSCOPE_TRACEBACK=1 shows it for an error that is the program's own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse ends `--help` so
        return stop.code if isinstance(stop.code, int) else 0
    except CliError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted; the interpreter's own flush at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as error:
        if os.environ.get("DEPTHSCOPE_TRACEBACK"):
            raise
        code = UsageError.exit_code if isinstance(error, IN_THE_WAY) else CliError.exit_code
        return _complain(os_error_text(error), code)
    except Exception as error:
        if os.environ.get("DEPTHSCOPE_TRACEBACK"):
            raise
        told = f"{type(error).__name__}: {error}"
        return _complain(
            f"`depthscope {' '.join(words)}` failed by a fault of its own: {told}\n"
            "Set DEPTHSCOPE_TRACEBACK=1 and type it again for the place.",
            CliError.exit_code,
        )


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if words else UsageError.exit_code
    name = words[0]
    if name in ("-V", "--version"):
        print(version_text())
        return 0
    if name not in COMMANDS:
        what = "option" if name.startswith("-") else "command"
        known = ("--help", "--version") if what == "option" else COMMANDS
        raise UsageError(
            f"no {what} is called {name!r}; {did_you_mean(name, known)}\nType `depthscope --help` for all of them."
        )
    command = COMMANDS[name]
    return command.run(parser_of(command).parse_args(words[1:]))


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items())
    return (
        "usage: depthscope COMMAND ...\n\n"
        "A flight recorder and viewer for the depth axis of deep networks.\n\n"
        f"commands:\n{lines}\n\n"
        "options:\n  --help     this text; `depthscope COMMAND --help` for one command, with examples\n"
        "  --version  the version\n\n"
        "exit codes:\n  0 done, 1 what was asked for failed, 2 a word of the command line means nothing\n\n"
        "examples:\n"
        "  depthscope demo\n      train four residual designs and watch them in the browser\n"
        "  depthscope serve runs/\n      look at recorded runs\n"
    )


def _complain(text: str, code: int) -> int:
    print(f"depthscope: {text}", file=sys.stderr)
    return code
