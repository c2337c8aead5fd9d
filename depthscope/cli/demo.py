"""`depthscope demo`: trains residual designs on real text and shows them while they grow."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from depthscope.cli.command import Command
from depthscope.cli.designs import ALL, designs_text
from depthscope.cli.errors import CliError, UsageError, cannot_write
from depthscope.cli.options import count, designs, natural, port


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--designs",
        nargs="+",
        metavar="DESIGN",
        help="residual designs, with options after a colon: prenorm block-attnres:S=4 hires:n=2,B=4; "
        "? lists all of them with their options (default: prenorm full-attnres block-attnres hires)",
    )
    parser.add_argument("--steps", type=count, metavar="N", help="optimizer steps of each design")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where the runs go (default: demo-runs/DATE)"
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of weights and batches (default: 0)"
    )
    parser.add_argument("--no-serve", action="store_true", help="train and record, show no page")
    parser.add_argument(
        "--port", type=port, metavar="P", help="port of the page, or the next free one (default: 8050)"
    )
    size = parser.add_argument_group("size (default: what suits the device)")
    size.add_argument(
        "--layers", type=count, metavar="L", help="sublayers; attention and MLP each count as one"
    )
    size.add_argument("--width", type=count, metavar="D", help="model width")
    size.add_argument("--context", type=count, metavar="T", help="tokens of a sequence")
    size.add_argument("--batch", type=count, metavar="B", help="sequences of a step")
    size.add_argument(
        "--experts",
        type=count,
        metavar="E",
        help="MLPs of every MLP sublayer, two for each token (default: 1)",
    )
    more = parser.add_argument_group("training and recording")
    more.add_argument("--optimizer", choices=("adamw", "muon"), help="muon: for matrices, AdamW for the rest")
    more.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    more.add_argument(
        "--every-fast", type=count, metavar="N", help="steps between rows of sizes and gradients"
    )
    more.add_argument("--every-slow", type=count, metavar="N", help="steps between rows of depth attention")
    more.add_argument(
        "--checkpoint-every",
        type=count,
        metavar="N",
        help="steps between checkpoints kept in the runs, for depthscope causal; the last step is always kept",
    )
    more.add_argument("--no-record", action="store_true", help="train only: no run is written, no page shown")


def run(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        raise CliError("demo needs torch, which is not installed; type: pip install 'depthscope[record]'")
    from depthscope.training import DemoError, DemoOptions, run_demo

    given = {
        name: value
        for name in (
            "steps", "out", "port", "layers", "width", "context", "batch", "experts",
            "optimizer", "device", "every_fast", "every_slow", "checkpoint_every",
        )
        if (value := getattr(arguments, name)) is not None
    }  # fmt: skip
    if arguments.designs is not None:
        given["designs"] = designs(arguments.designs)
        if ALL in given["designs"]:
            print(designs_text())
            return 0
    try:
        options = DemoOptions(
            seed=arguments.seed, serve=not arguments.no_serve, record=not arguments.no_record, **given
        )
        return run_demo(options)
    except DemoError as error:
        raise UsageError(f"demo: {error}") from None
    except OSError as error:
        raise cannot_write("demo", arguments.out or Path("demo-runs"), error) or error from None


DEMO = Command(
    name="demo",
    summary="train residual designs on real text and watch them in the browser",
    description="Train small language models of several residual designs, in turns, on the source text of Python's "
    "own standard library, record them, and show the page where they grow.",
    examples=(
        ("depthscope demo", "four designs, a page at 127.0.0.1:8050"),
        ("depthscope demo --designs prenorm block-attnres:S=4 --steps 100", "two designs, shorter"),
        ("depthscope demo --designs '?'", "no training: every design with its options"),
        (
            "depthscope demo --no-serve --out runs/first",
            "record only; look later with depthscope serve runs/",
        ),
    ),
    add_arguments=add_arguments,
    run=run,
)
