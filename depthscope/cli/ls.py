"""`depthscope ls`: a table of the runs below some folders."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depthscope.cli.command import Command
from depthscope.cli.errors import UsageError
from depthscope.cli.runs import runs_below
from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    from depthscope.store import Run

DEFAULT_FOLDERS = ("runs", "demo-runs")
"""Where Recorder examples and the demo write; looked at when no path is given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help=f"runs or folders of runs (default: {' and '.join(DEFAULT_FOLDERS)}, those that exist)",
    )


def run(arguments: argparse.Namespace) -> int:
    found: dict[Path, Run] = {}
    wrong: list[str] = []
    for text in arguments.paths or default_folders("ls"):
        runs, problems = runs_below(text, "ls")
        found.update({Path(run.path).resolve(): run for run in runs})
        wrong += problems
    rows = []
    for entry in found.values():
        try:
            rows.append(row(entry))
        except ValueError as error:  # RunError: it was damaged since it was opened
            wrong.append(str(error))
    columns = (
        Column(title="name"),
        Column(title="kind"),
        Column(title="status"),
        Column(title="steps", right=True),
        Column(title="last step", right=True),
        Column(title="size", right=True),
        Column(title="started"),
        Column(title="path"),
    )
    if rows:
        print_table(columns, rows)
    for problem in wrong:
        print(f"depthscope: ls: {problem}", file=sys.stderr)
    return 1 if wrong else 0


def default_folders(command: str) -> list[str]:
    """Return the usual folders that exist here; UsageError when none does."""
    found = [name for name in DEFAULT_FOLDERS if Path(name).is_dir()]
    if not found:
        raise UsageError(
            f"{command}: no folder was given, and {Path.cwd()} has neither {' nor '.join(DEFAULT_FOLDERS)}.\n"
            f"Type: depthscope {command} FOLDER"
        )
    return found


def row(entry: Run) -> list[str]:
    """Return the texts of one run's line."""
    from depthscope.store import bytes_on_disk

    planned = entry.config.get("steps")
    return [
        entry.name,
        kind_of(entry),
        entry.status,
        str(planned) if isinstance(planned, int) else "-",
        "-" if entry.last_step is None else str(entry.last_step),
        size_text(bytes_on_disk(Path(entry.path))),
        started_text(entry.created),
        near(Path(entry.path)),
    ]


def near(path: Path) -> str:
    """Return a path as it can be typed here: relative where it lies below the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def kind_of(entry: Run) -> str:
    """Return the design's short label where the configuration has one, else the design as typed."""
    kind = entry.config.get("kind")
    return str(kind) if kind else entry.layout.design


def size_text(size: int) -> str:
    """Return bytes in decimal units: 950 B, 12.3 kB, 4.6 MB."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def started_text(created: Any) -> str:
    """Return when a run was created as local date and minute with its zone; what cannot be read as it is."""
    try:
        moment = (
            datetime.fromtimestamp(created).astimezone()
            if isinstance(created, int | float)
            else datetime.fromisoformat(str(created)).astimezone()
        )
    except (ValueError, OverflowError, OSError):
        return str(created)
    return moment.strftime("%Y-%m-%d %H:%M %Z")


LS = Command(
    name="ls",
    summary="list runs: kind, status, steps, size",
    description="List the runs at or below some folders.",
    examples=(
        ("depthscope ls", "the runs below ./runs and ./demo-runs"),
        ("depthscope ls runs/ /scratch/sweep", "those of two folders"),
        ("depthscope ls | sort -k3", "plain aligned text when not in a terminal"),
    ),
    add_arguments=add_arguments,
    run=run,
)
