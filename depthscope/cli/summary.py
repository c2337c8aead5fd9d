"""`depthscope summary`: one run in a terminal: what it is, what stands out, its numbers over depth."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError
from depthscope.cli.ls import folder_size, kind_of, size_text, started_text
from depthscope.cli.options import natural
from depthscope.cli.runs import open_named
from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from depthscope.analysis import Finding
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
ROWS = 64
"""Deeper runs show evenly spaced sublayers, the first and the last included."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--step", type=natural, metavar="S", help="look at records up to step S (default: all)"
    )
    parser.add_argument("--baseline", metavar="RUN", help="a run to compare with, at equal step")
    parser.add_argument(
        "--quantity", action="append", metavar="NAME", help="a column of the table (repeatable)"
    )


def run(arguments: argparse.Namespace) -> int:
    from depthscope.store import RunError

    try:
        _print(arguments)
    except RunError as error:  # a chunk may be damaged where the rest can be read
        raise CliError(f"summary: {error}") from None
    return 0


def _print(arguments: argparse.Namespace) -> None:
    from depthscope.analysis import findings, undecided

    entry = open_named(arguments.run, "summary")
    baseline = open_named(arguments.baseline, "summary") if arguments.baseline else None
    names = _columns(entry, arguments.quantity)
    for key, value in headline(entry).items():
        print(f"{key:<9}{value}")
    print("\nconfiguration")
    for key, value in flat(entry.config).items():
        print(f"  {key}: {value}")
    print("\nfindings")
    found = findings(entry, baseline, step=arguments.step)
    for finding in found:
        print(finding_text(finding))
    if not found:
        print("  none yet")
    _print_reasons("findings not looked for", undecided(entry))
    _print_reasons("not recorded", entry.missing)
    _print_depth(entry, names, arguments.step)


def headline(entry: Run) -> dict[str, str]:
    """Return the lines at the top: what the run is."""
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
        "size": size_text(folder_size(Path(entry.path))),
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
            raise CliError(f"summary: --quantity {name}: {error.args[0]}") from None
        if dims != ("layer",):
            over = ", ".join(dims) if dims else "nothing but step"
            raise CliError(
                f"summary: --quantity {name} is over {over}; the table shows quantities over layer."
            )
        if name not in entry.quantities:
            reason = entry.missing.get(name, "the recorder had no such probe")
            raise CliError(f"summary: --quantity {name} is not in {entry.path}: {reason}.")
    return asked


def _print_depth(entry: Run, names: list[str], until: int | None) -> None:
    import numpy as np

    arrays = {}
    for name in names:
        array = entry[name]
        rows = array if until is None else array.isel(step=np.flatnonzero(array["step"].values <= until))
        if rows.sizes["step"]:
            arrays[name] = rows.isel(step=-1)
    if not arrays:
        print("\nno record yet" if until is None else f"\nno record up to step {until}")
        return
    steps = sorted({int(array["step"]) for array in arrays.values()})
    print(f"\nover depth at step {', '.join(map(str, steps))}")
    layout = entry.layout
    shown = shown_layers(layout.layers)
    columns = [Column(title="layer", right=True), Column(title="sublayer"), Column(title="block", right=True)]
    columns += [Column(title=name, right=True) for name in arrays]
    lines = [
        [
            str(layer + 1),
            layout.layer_kinds[layer],
            str(layout.residual_block[layer] or "-"),
            *(number_text(float(array.values[layer])) for array in arrays.values()),
        ]
        for layer in shown
    ]
    print_table(columns, lines)
    if shown.size < layout.layers:
        print(f"{shown.size} of {layout.layers} sublayers, evenly spaced")


def shown_layers(layers: int) -> NDArray[np.int64]:
    """Return the layers (from 0) that the table shows: all, or `ROWS` evenly spaced ones."""
    import numpy as np

    return np.linspace(0, layers - 1, min(layers, ROWS)).round().astype(np.int64)


def number_text(value: float) -> str:
    """Return three significant digits; `-` for what the design does not have."""
    return "-" if math.isnan(value) else f"{value:.3g}"


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
