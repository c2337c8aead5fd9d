"""`depthscope compare`: the numbers that tell runs apart, brought to equal footing, and findings."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from depthscope.cli.command import Command
from depthscope.cli.comparison import NUMBERS, footing, tokens_per_step
from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.options import natural
from depthscope.cli.runs import note_late, open_named, several
from depthscope.cli.summary import finding_text
from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    from depthscope.store import Run

ALIKE = 1e-9
"""Relative difference up to which a number does not tell runs apart."""
_WORDS = {"step": "step", "tokens": "number of tokens", "loss": "loss"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="two or more runs, or folders with runs in them"
    )
    parser.add_argument(
        "--at",
        choices=("step", "tokens", "loss"),
        default="step",
        help="what is equal: steps, tokens seen, or validation loss reached (default: step)",
    )
    parser.add_argument(
        "--step", type=natural, metavar="S", help="step of the baseline (default: the last that all reach)"
    )
    parser.add_argument(
        "--baseline", metavar="RUN", help="the run that differences are taken from (default: the first)"
    )


def run(arguments: argparse.Namespace) -> int:
    from depthscope.figures import told_apart
    from depthscope.store import RunError

    runs = several(arguments.runs, "compare")
    if arguments.baseline is not None:
        named = open_named(arguments.baseline, "compare")
        runs = [named, *(run for run in runs if Path(run.path).resolve() != Path(named.path).resolve())]
    if len(runs) < 2:
        raise UsageError(f"compare: found one run, {runs[0].name}; expected two or more")
    try:
        _print(told_apart(runs), arguments.at, arguments.step)
    except RunError as error:  # a chunk may be damaged where the rest can be read
        raise CliError(f"compare: {error}") from None
    return 0


def _print(runs: Sequence[Run], at: str, asked: int | None) -> None:
    from depthscope.analysis import findings

    baseline = runs[0]
    steps = footing(runs, at, asked)
    if asked is not None:
        reached = [
            step for run in (runs if at == "step" else runs[:1]) if (step := run.last_step) is not None
        ]
        note_late("compare", [asked], min(reached))
    print(f"at equal {_WORDS[at]}, baseline {baseline.name}\n")
    rates = {run.name: tokens_per_step(run) for run in runs}
    if at == "step" and len({rate for rate in rates.values() if rate is not None}) > 1:
        told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items() if rate is not None)
        print(f"! Tokens per step differ ({told}): equal steps are not equal tokens. Type --at tokens.\n")
    found = {run.id: {title: number(run, steps[run.id]) for title, number in NUMBERS.items()} for run in runs}
    columns = [Column(title="")] + [Column(title=run.name, right=True) for run in runs]
    rows = [["design", *(str(run.config.get("kind") or run.layout.design) for run in runs)]]
    rows.append(["step", *(str(steps[run.id]) for run in runs)])
    apart, alike = told_apart(found)
    for title in apart:
        values = [found[run.id][title] for run in runs]
        rows.append(
            [title, *(_cell(value, None if place == 0 else values[0]) for place, value in enumerate(values))]
        )
    print_table(columns, rows)
    print("\nIn brackets: minus the baseline's.")
    if alike:
        print(f"The same in all runs: {'; '.join(alike)}.")
    for run in runs[1:]:
        print(f"\n{run.name} against {baseline.name}")
        same = at == "step"
        for finding in findings(run, baseline if same else None, step=steps[run.id]):
            print(finding_text(finding))
    if at != "step":
        print(f"\n{baseline.name}")
        for finding in findings(baseline, step=steps[baseline.id]):
            print(finding_text(finding))


def told_apart(found: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Return the titles whose numbers differ between runs (one lacks it, or the values do), and those alike."""
    apart: list[str] = []
    alike: list[str] = []
    for title in NUMBERS:
        values = [numbers[title] for numbers in found.values()]
        known = [value for value in values if not math.isnan(value)]
        if not known:
            continue
        same = len(known) == len(values) and max(known) - min(known) <= ALIKE * max(
            map(abs, known), default=0
        )
        (alike if same else apart).append(title)
    return apart, alike


def _cell(value: float, baseline: float | None) -> str:
    if math.isnan(value):
        return "-"
    text = f"{value:.3g}"
    if baseline is None or math.isnan(baseline):
        return text
    return f"{text} ({value - baseline:+.2g})".replace("-", "−")


COMPARE = Command(
    name="compare",
    summary="the numbers that tell runs apart, at equal step, tokens or loss",
    description="Set runs side by side: the numbers in which they differ, at an equal step, at equally many tokens or "
    "at an equal validation loss, and what stands out in each run against the baseline.",
    examples=(
        ("depthscope compare runs/", "all runs below a folder, at the last step that all of them reached"),
        ("depthscope compare runs/block runs/prenorm --baseline runs/prenorm", "against a baseline"),
        ("depthscope compare runs/ --at loss", "where each run reached the loss that all of them reach"),
    ),
    add_arguments=add_arguments,
    run=run,
)
