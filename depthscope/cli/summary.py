"""`depthscope summary`: one run in a terminal: what it is, what stands out, its numbers over depth."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depthscope.cli.command import Command
from depthscope.cli.depth_table import last_rows, print_depth
from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.ls import kind_of, size_text, started_text
from depthscope.cli.options import natural
from depthscope.cli.runs import open_named

if TYPE_CHECKING:
    import xarray as xr

    from depthscope.analysis import Finding
    from depthscope.quantities import DepthLayout
    from depthscope.store import Run

COLUMNS = (
    "state_rms",
    "write_rms",
    "read_rms",
    "fresh_share",
    "write_ratio",
    "grad_state_rms",
    "grad_relative",
)
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--step", type=natural, metavar="S", help="look at records up to step S (default: all)"
    )
    parser.add_argument("--baseline", metavar="RUN", help="a run to compare with, at equal step")
    parser.add_argument(
        "--quantity", action="append", metavar="NAME", help="a column of the table (repeatable)"
    )


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What is printed of a run."""

    headline: Mapping[str, str]
    config: Mapping[str, str]
    found: Sequence[Finding]
    undecided: Mapping[str, str]
    missing: Mapping[str, str]
    attempts: Sequence[str]
    gaps: Sequence[str]
    rows: Mapping[str, xr.DataArray]
    """The last row of each column of the table."""


def run(arguments: argparse.Namespace) -> int:
    from depthscope.cli.damage import Undamaged
    from depthscope.store import RunError

    runs = [open_named(arguments.run, "summary")]
    if arguments.baseline:
        from depthscope.figures import told_apart  # with plotly: not for one run

        runs = told_apart([*runs, open_named(arguments.baseline, "summary")])
    names = _columns(runs[0], arguments.quantity)
    damaged: dict[str, str] = {}
    try:
        try:
            contents = _contents(runs, names, arguments.step)
        except RunError:  # chunks are damaged where the rest can be read
            whole = [Undamaged(entry) for entry in runs]
            damaged = {f"{entry.name} {name}": why for entry in whole for name, why in entry.damaged.items()}
            names = [name for name in names if name in whole[0].quantities]
            contents = _contents(whole, names, arguments.step)
    except RunError as error:
        raise CliError(f"summary: {error}") from None
    _print(contents, damaged, runs[0].layout, arguments.step)
    for why in dict.fromkeys(damaged.values()):
        print(f"depthscope: summary: {why}", file=sys.stderr)
    return CliError.exit_code if damaged else 0


def _contents(runs: Sequence[Run], names: Sequence[str], step: int | None) -> Contents:
    from depthscope.analysis import findings, undecided
    from depthscope.store import attempts_in_words, gaps_in_words

    entry, *others = runs
    return Contents(
        headline=headline(entry),
        config=flat(entry.config),
        found=findings(entry, others[0] if others else None, step=step),
        undecided=undecided(entry),
        missing=entry.missing,
        attempts=attempts_in_words(entry),
        gaps=gaps_in_words(entry),
        rows=last_rows(entry, names, step),
    )


def _print(contents: Contents, damaged: Mapping[str, str], layout: DepthLayout, step: int | None) -> None:
    for key, value in contents.headline.items():
        print(f"{key:<9}{value}")
    _print_reasons("damaged, and left out below", damaged)
    _print_lines("earlier attempts", contents.attempts)
    _print_lines("rows lost", contents.gaps)
    print("\nconfiguration")
    for key, value in contents.config.items():
        print(f"  {key}: {value}")
    print("\nfindings")
    for finding in contents.found:
        print(finding_text(finding))
    if not contents.found:
        print("  none yet")
    _print_reasons("findings not looked for", contents.undecided)
    _print_reasons("not recorded", contents.missing)
    print_depth(contents.rows, layout, step)


def headline(entry: Run) -> dict[str, str]:
    """Return the lines at the top: what the run is."""
    from depthscope.store import bytes_on_disk

    layout = entry.layout
    blocks = max(layout.transformer_block, default=0)
    return {
        "run": entry.name,
        "path": str(entry.path),
        "design": f"{layout.design} ({kind_of(entry)})" if kind_of(entry) != layout.design else layout.design,
        "depth": f"{layout.layers} sublayers in {blocks} transformer blocks",
        "status": f"{entry.status}, {'no record yet' if entry.last_step is None else f'last step {entry.last_step}'}",
        "loss": losses_text(entry),
        "started": started_text(entry.created),
        "size": size_text(bytes_on_disk(Path(entry.path))),
    }


def losses_text(entry: Run) -> str:
    """Return the newest training loss and the newest of each evaluation, with their steps."""
    evaluations = [name for name in entry.quantities if f"evaluation/{name}" in entry]
    told = []
    for name in ("loss", *evaluations):
        known = name in entry and entry.read(name, entry.last_step).ndim == 1
        array = entry.read(name).dropna("step") if known else None
        if array is not None and array.size:
            label = "training" if name == "loss" else name
            told.append(f"{label} {float(array[-1]):.4g} at step {int(array['step'][-1])}")
    return ", ".join(told) or "not recorded"


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return a nested configuration as dotted keys and texts."""
    out: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = str(value)
    return out


def finding_text(finding: Finding) -> str:
    """Return a finding as a marked line, its detail indented below."""
    mark = "!" if finding.severity == "warning" else "-"
    lines = [_indented(f"{mark} {finding.text} (step {finding.step})", 2, 4)]
    if finding.detail:
        lines.append(_indented(finding.detail, 6, 6))
    return "\n".join(lines)


def _print_lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"\n{title}")
    for line in lines:
        print(_indented(line, 2, 4))


def _print_reasons(title: str, reasons: Mapping[str, str]) -> None:
    """Print names grouped by their reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    if names:
        print(f"\n{title}")
    for reason, group in names.items():
        print(_indented(f"{', '.join(group)}: {reason}", 2, 4))


def _indented(text: str, first: int, rest: int) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest)


def _columns(entry: Run, asked: list[str] | None) -> list[str]:
    """Return the columns of the table: what was asked for and can be shown, else what the run has."""
    if asked is None:
        return [name for name in COLUMNS if name in entry.quantities]
    from depthscope.quantities import quantity

    for name in asked:
        try:
            dims = quantity(name).dims
        except KeyError as error:
            raise UsageError(f"summary: --quantity {name}: {error.args[0]}") from None
        if dims != ("layer",):
            over = ", ".join(dims) if dims else "nothing but step"
            raise UsageError(
                f"summary: --quantity {name} is over {over}; the table shows quantities over layer."
            )
        if name not in entry.quantities:
            reason = entry.missing.get(name, "the recorder had no such probe")
            raise CliError(f"summary: --quantity {name} is not in {entry.path}: {reason}.")
    return asked


SUMMARY = Command(
    name="summary",
    summary="one run in the terminal: findings and the numbers over depth",
    description="Print what a run is, what stands out in it, what was not recorded and why, and its numbers "
    "over depth at the newest step.",
    examples=(
        ("depthscope summary runs/prenorm", "the whole run"),
        ("depthscope summary runs/block-attnres --baseline runs/prenorm", "beside another, at equal step"),
        (
            "depthscope summary runs/prenorm --step 100 --quantity state_logrms",
            "an earlier step, another column",
        ),
    ),
    add_arguments=add_arguments,
    run=run,
)
