"""What a subcommand is, and the parser made from it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from depthscope.cli.errors import UsageError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Command:
    """One subcommand."""

    name: str
    summary: str
    """One line for the list of commands."""
    description: str
    examples: tuple[tuple[str, str], ...]
    """(what to type, what it does) pairs."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UsageError`s that suggest the option that was meant."""

    def error(self, message: str) -> NoReturn:
        lost = message.removeprefix("unrecognized arguments: ") if message.startswith("unrecognized") else ""
        if lost.startswith("-"):
            word = lost.split()[0].partition("=")[0]
            message = f"no option is called {word}; {did_you_mean(word, self._long_options())}"
        raise UsageError(
            f"{self.prog.removeprefix('depthscope ')}: {message}\nType `{self.prog} --help` for its arguments and examples."
        )

    def _long_options(self) -> list[str]:
        return [
            option for action in self._actions for option in action.option_strings if option.startswith("--")
        ]


def parser_of(command: Command) -> Parser:
    """Return the parser of one subcommand, with its examples at the end of `--help`."""
    examples = "\n".join(f"  {typed}\n      {meaning}" for typed, meaning in command.examples)
    parser = Parser(
        prog=f"depthscope {command.name}",
        description=textwrap.fill(command.description, 80),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser
