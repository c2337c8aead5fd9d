"""`depthscope check`: does a run hold what it says it holds?"""

from __future__ import annotations

import argparse

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError
from depthscope.cli.runs import open_named
from depthscope.cli.table import Column, print_table

DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run")


def run(arguments: argparse.Namespace) -> int:
    from depthscope.store import RunError, check_run

    damaged = 0
    for text in arguments.runs:
        try:
            checks = check_run(text)
        except RunError:
            # Says what lies there instead, and which runs are below it.
            checks = check_run(open_named(text, "check").path)
        rows = [["ok" if check.passed else "WRONG", check.part, check.found] for check in checks]
        if len(arguments.runs) > 1:
            print(text)
        print_table((Column(title=""), Column(title="part"), Column(title="found")), rows)
        damaged += not all(check.passed for check in checks)
    if damaged and len(arguments.runs) > 1:
        raise CliError(f"check: {damaged} of {len(arguments.runs)} runs are not sound")
    return DAMAGED if damaged else 0


CHECK = Command(
    name="check",
    summary="look a run over: files, checksums, identities",
    description="Compare a run's files with its commit, unpack every chunk, test the checksum of every row that is "
    "only in a log, and hold the recorded numbers against the identities that their definitions imply. Changes "
    "nothing; works on a live run. Exit code: 0 sound, 1 something is wrong, 2 the command line was not understood.",
    examples=(
        ("depthscope check runs/block-attnres", "a table of what was looked at"),
        ("depthscope check runs/* && rsync -a runs/ archive/", "archive runs only when all are sound"),
    ),
    add_arguments=add_arguments,
    run=run,
)
