"""`depthscope export`: a figure of some runs as a file for a paper, with caption, numbers and provenance."""

from __future__ import annotations

import argparse
import shlex
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError, UsageError, cannot_write, did_you_mean
from depthscope.cli.options import natural
from depthscope.cli.runs import note_late, open_named, several
from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    from depthscope.report import Exported
    from depthscope.store import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="runs, or folders with runs in them")
    parser.add_argument("--figure", metavar="NAME", help="which figure; --list shows them all")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to: the ending .pdf, .svg, .png, .html or .csv says how",
    )
    parser.add_argument(
        "--width",
        default="column",
        metavar="W",
        help="column (3.25 in), text (6.75 in), or a length like 8.2cm (default: column)",
    )
    parser.add_argument(
        "--step", type=natural, metavar="S", help="records at or before step S (default: newest)"
    )
    parser.add_argument(
        "--quantity", metavar="NAME", help="what a profile or map shows; a profile takes several: A,B"
    )
    parser.add_argument("--mode", metavar="MODE", help="absolute, ratio, fresh, write or difference")
    parser.add_argument("--baseline", metavar="RUN", help="the run that differences are taken from")
    parser.add_argument(
        "--scale",
        choices=("shared", "full", "own"),
        default="shared",
        help="colour range: one for all runs without the outer 1 %% of values, one with them, or one a run",
    )
    parser.add_argument(
        "--linear", action="store_true", help="linear axes and colours in place of logarithmic"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a further option of the figure; --list shows them (repeatable)",
    )
    parser.add_argument("--list", action="store_true", help="list the figures and their options, and end")


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        _print_figures()
        return 0
    for name, given in (
        ("RUN", arguments.runs),
        ("--figure NAME", arguments.figure),
        ("-o FILE", arguments.output),
    ):
        if not given:
            raise UsageError(
                f"export: {name} is missing; type for example\n"
                "  depthscope export runs/ --figure depth-profile -o profile.pdf"
            )
    written = _export(arguments)
    for name, reason in written.left_out.items():
        print(f"depthscope: export: {name} is not in the figure: {reason}", file=sys.stderr)
    for name, reason in written.loss_only.items():
        print(f"depthscope: export: {name} is in the figure with its loss only: {reason}", file=sys.stderr)
    for path in (written.figure, *written.beside):
        print(path)
    return 0


def _age(run: Run) -> tuple[str, str]:
    """Colours follow the order of creation, as on the page, whatever the order typed."""
    return run.created, str(run.path)


def _export(arguments: argparse.Namespace) -> Exported:
    from depthscope.figures import PAPER_FIGURES, NothingToDraw
    from depthscope.report import export
    from depthscope.store import RunError

    if arguments.figure not in PAPER_FIGURES:
        raise UsageError(
            f"export: no figure is called {arguments.figure!r}; {did_you_mean(arguments.figure, PAPER_FIGURES)}"
        )
    runs = several(arguments.runs, "export")
    options = _options(arguments, PAPER_FIGURES[arguments.figure].options)
    if arguments.baseline is not None:
        baseline = open_named(arguments.baseline, "export")
        options["baseline"] = baseline.id
        if baseline.id not in [run.id for run in runs]:
            runs.insert(0, baseline)
    asked = [options.get("step"), options.get("reference_step"), *options.get("pins", ())]
    steps = [step for run in runs if (step := run.last_step) is not None]
    note_late("export", [step for step in asked if step is not None], max(steps, default=None))
    if arguments.linear:
        options["log"] = False
    try:
        return export(
            arguments.figure,
            runs,
            Path(arguments.output),
            arguments.width,
            scale=arguments.scale,
            command=typed_command(arguments),
            slots={run.id: slot for slot, run in enumerate(sorted(runs, key=_age), start=1)},
            **options,
        )
    except OSError as error:
        raise cannot_write("export", Path(arguments.output), error) or error from None
    except RunError as error:  # a chunk may be damaged where the rest can be read
        raise CliError(f"export: {error}") from None
    except KeyError as error:
        raise UsageError(f"export: {error.args[0]}") from None
    except (NothingToDraw, ImportError) as error:
        raise CliError(f"export: {error}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(f"export: {error}") from None


def typed_command(arguments: argparse.Namespace) -> str:
    """Return the command line as it can be typed again, its defaults left out."""
    words = ["depthscope", "export", *arguments.runs, "--figure", arguments.figure]
    if arguments.width != "column":
        words += ["--width", arguments.width]
    for name in ("step", "quantity", "mode", "baseline"):
        value = getattr(arguments, name)
        words += [] if value is None else [f"--{name}", str(value)]
    words += ["--scale", arguments.scale] if arguments.scale != "shared" else []
    words += ["--linear"] if arguments.linear else []
    for entry in arguments.option:
        words += ["--option", entry]
    return shlex.join([*words, "-o", arguments.output])


def _options(arguments: argparse.Namespace, known: type[Any]) -> dict[str, Any]:
    """Return the figure's options from the flags and from ``--option KEY=VALUE``; UsageError for what it lacks."""
    hints = get_type_hints(known)
    names = [field.name for field in fields(known)]
    given = {
        name: str(value)
        for name in ("step", "quantity", "mode")
        if (value := getattr(arguments, name)) is not None
    }
    for entry in arguments.option:
        key, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"export: --option {entry} is not of the form KEY=VALUE")
        given[key.replace("-", "_")] = value
    wanted = [*given, *(["baseline"] if arguments.baseline is not None else [])]
    for name in wanted:
        if name not in names:
            raise UsageError(
                f"export: figure {arguments.figure} has no option {name!r}; it takes {', '.join(names)}"
            )
    return {name: converted(name, text, hints[name]) for name, text in given.items()}


def converted(name: str, text: str, kind: Any) -> Any:
    """Return `text` as an option's type has it; UsageError that says what was expected."""
    parts = (
        [part for part in get_args(kind) if part is not type(None)]
        if get_origin(kind) is types.UnionType
        else [kind]
    )
    chosen = parts[0]
    if get_origin(chosen) is Literal:
        if text not in get_args(chosen):
            raise UsageError(f"export: {name} is {text!r}; {did_you_mean(text, get_args(chosen))}")
        return text
    try:
        if get_origin(chosen) is not None:  # Sequence[int], Sequence[str]
            (entry,) = get_args(chosen)
            return tuple(entry(part) for part in text.split(",") if part)
        return chosen(text)
    except ValueError:
        raise UsageError(f"export: {name} is {text!r}; expected {_words(chosen)}") from None


def _words(kind: Any) -> str:
    return {int: "a whole number", float: "a number"}.get(kind, "whole numbers with commas between them")


def _print_figures() -> None:
    from depthscope.figures import PAPER_FIGURES

    rows = [
        [name, entry.shows, ", ".join(_described(entry.options))] for name, entry in PAPER_FIGURES.items()
    ]
    print_table([Column(title="figure"), Column(title="shows"), Column(title="options")], rows)


def _described(options: type[Any]) -> Sequence[str]:
    hints: Mapping[str, Any] = get_type_hints(options)
    out = []
    for field in fields(options):
        kind = hints[field.name]
        choices = "|".join(map(str, get_args(kind))) if get_origin(kind) is Literal else ""
        out.append(f"{field.name}={choices}" if choices else field.name)
    return out


EXPORT = Command(
    name="export",
    summary="a figure as PDF, SVG, PNG, HTML or CSV, with caption and provenance",
    description="Write a figure of some runs to a file of an exact width. Beside it go the drawn numbers (.csv), "
    "runs, steps, definitions and versions (.json) and the caption (.tex). The same runs and options give the same "
    "bytes.",
    examples=(
        (
            "depthscope export runs/ --figure depth-profile -o profile.pdf",
            "loss, state and gradient, one column wide",
        ),
        (
            "depthscope export runs/block --figure depth-attention --width text --step 200 -o attention.pdf",
            "weight and contribution at step 200, as wide as the page",
        ),
        (
            "depthscope export runs/a runs/b --figure depth-map --mode difference --baseline runs/a -o map.svg",
            "where b differs from a",
        ),
        (
            "depthscope export runs/ --figure depth-profile --quantity fresh_share,grad_relative -o shares.pdf",
            "other quantities",
        ),
        ("depthscope export --list", "the figures and their options"),
    ),
    add_arguments=add_arguments,
    run=run,
)
