"""`depthscope recover`: brings a killed run's last rows from its log into its arrays."""

from __future__ import annotations

import argparse

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError
from depthscope.cli.runs import open_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the folder of a run whose writer was killed")


def run(arguments: argparse.Namespace) -> int:
    from depthscope.store import RunError, recover_run

    entry = open_named(arguments.run, "recover")
    try:
        found = recover_run(entry.path)
    except RunError as error:
        raise CliError(f"recover: {error}") from None
    if found.closed:
        print(f"{entry.name} was closed: all of its rows are in its arrays")
        return 0
    for stream, rows in found.rows.items():
        print(f"{stream}: {entry.rows(stream)} rows, {rows} of them from the log")
    for log in found.damaged:
        print(f"kept aside, since a part of it is no row: {log}.damaged")
    print("other programs see all rows now; a Recorder goes on with this run when it is given its path")
    return 0


RECOVER = Command(
    name="recover",
    summary="bring a killed run's last rows into its arrays",
    description="Nothing is ever lost without it: depthscope reads the rows of the log, and a Recorder that resumes "
    "the run recovers it first. Type it when other programs (xarray, zarr) shall see the last rows of a run whose "
    "writer was killed. Refused while a recorder writes the run.",
    examples=(
        ("depthscope recover runs/block-attnres", "say how many rows came from the log"),
        ("depthscope check runs/block-attnres", "look whether it needs that, or is damaged"),
    ),
    add_arguments=add_arguments,
    run=run,
)
