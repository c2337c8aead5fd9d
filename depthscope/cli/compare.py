"""`depthscope compare`: the numbers that tell runs apart, brought to equal footing, and findings."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from depthscope.cli.command import Command
from depthscope.cli.comparison import NUMBERS, footing, tokens_per_step
from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.options import natural
from depthscope.cli.runs import named_itself, note_late, open_named, several
from depthscope.cli.summary import finding_text
from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    from depthscope.analysis import Finding
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
    typed = [*arguments.runs, *filter(None, [arguments.baseline])]
    while True:
        try:
            compared = _compare(told_apart(runs), arguments.at, arguments.step)
            break
        except RunError as error:  # a chunk may be damaged where the rest can be read
            damaged = [run for run in runs if Path(run.path) in (error.path, *error.path.parents)]
            if not damaged or named_itself(damaged[0], typed) or len(runs) == 2:
                raise CliError(f"compare: {error}") from None
            print(f"depthscope: compare: left out: {error}", file=sys.stderr)
            runs = [run for run in runs if run is not damaged[0]]
    _print(compared, arguments.at, arguments.step)
    return 0


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """All that is printed of some runs, the first of them the baseline, by run id."""

    runs: Sequence[Run]
    steps: Mapping[str, int]
    rates: Mapping[str, float | None]
    numbers: Mapping[str, Mapping[str, float]]
    findings: Mapping[str, Sequence[Finding]]


def _compare(runs: Sequence[Run], at: str, asked: int | None) -> _Compared:
    """Read everything before anything is printed: a damaged run must not end it half-way."""
    from depthscope.analysis import findings

    steps = footing(runs, at, asked)
    same = at == "step"
    return _Compared(
        runs=runs,
        steps=steps,
        rates={run.id: tokens_per_step(run) for run in runs},
        numbers={
            run.id: {title: number(run, steps[run.id]) for title, number in NUMBERS.items()} for run in runs
        },
        findings={
            run.id: findings(run, runs[0] if same else None, step=steps[run.id])
            for run in (runs[1:] if same else runs)
        },
    )


def _print(compared: _Compared, at: str, asked: int | None) -> None:
    runs, steps, found = compared.runs, compared.steps, compared.numbers
    baseline = runs[0]
    if asked is not None:
        footed = runs if at == "step" else runs[:1]
        note_late("compare", [asked], min(step for run in footed if (step := run.last_step) is not None))
    print(f"at equal {_WORDS[at]}, baseline {baseline.name}\n")
    rates = {run.name: compared.rates[run.id] for run in runs}
    if at == "step" and len({rate for rate in rates.values() if rate is not None}) > 1:
        told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items() if rate is not None)
        print(f"! Tokens per step differ ({told}): equal steps are not equal tokens. Type --at tokens.\n")
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
        for finding in compared.findings[run.id]:
            print(finding_text(finding))
    if at != "step":
        print(f"\n{baseline.name}")
        for finding in compared.findings[baseline.id]:
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
