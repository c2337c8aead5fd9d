"""`depthscope doctor`: is this machine, and is this training step, fit to be recorded?"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.health import facts
from depthscope.cli.table import Column, print_table
from depthscope.cli.target import call, load

if TYPE_CHECKING:
    from torch import nn

    from depthscope.testing import Verification

WRONG = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verify",
        metavar="module:factory",
        help="record one step of your own setup and hold it against fp64: a function without arguments that returns "
        "(model, optimizer, step), where step(model, optimizer, recorder) runs one whole training step and calls "
        "recorder.step() at its end. A mapping or object with these names may add 'scaler', 'example' and, for a "
        "sharded model, 'reference'",
    )
    parser.add_argument(
        "--tolerance",
        type=_positive,
        metavar="NUMBER",
        help="largest relative difference (default: 1e-3; 5e-2 where activations are bf16 or fp16)",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.verify is None:
        if arguments.tolerance is not None:
            raise UsageError("doctor: --tolerance is for --verify module:factory")
        found = list(facts())
        columns = (Column(title=""), Column(title="what"), Column(title="found"))
        print_table(columns, [[fact.state, fact.what, fact.found] for fact in found])
        return WRONG if any(fact.state == "WRONG" for fact in found) else 0
    if importlib.util.find_spec("torch") is None:
        raise CliError("doctor needs torch for --verify; type: pip install 'depthscope[record]'")
    return _verify(arguments.verify, arguments.tolerance)


def _verify(target: str, tolerance: float | None) -> int:
    import torch.distributed as dist

    code = _verified(target, tolerance)
    if dist.is_available() and dist.is_initialized():
        told: list[Any] = [code]
        dist.broadcast_object_list(told)
        # A model that is still there would outlive the threads of the groups that it holds, and abort the process.
        gc.collect()
        dist.barrier()
        dist.destroy_process_group()
        code = int(told[0])
    return code


def _verified(target: str, tolerance: float | None) -> int:
    from depthscope.anatomy import AnatomyError
    from depthscope.testing import SetupError, setup_of, verify_step

    factory = load(target, "doctor --verify")
    if not callable(factory):
        raise UsageError(
            f"doctor --verify {target!r} is a {type(factory).__name__}; expected a function without arguments that "
            "returns (model, optimizer, step)"
        )
    made = call(factory, target, "doctor --verify")
    try:
        setup = setup_of(made)
        hints = _hints(setup.model)
        result = call(lambda: verify_step(setup, tolerance=tolerance), target, "the step of")
    except SetupError as error:
        raise CliError(f"doctor --verify {target!r}: {error}") from None
    except CliError as error:
        cause = error.__cause__
        if isinstance(cause, SetupError | AnatomyError):
            about = "no depth axis was found: " if isinstance(cause, AnatomyError) else ""
            raise CliError(f"doctor --verify {target!r}: {about}{cause}") from None
        raise
    if result is None:
        return 0
    _print(target, result, hints)
    return 0 if result.ok else WRONG


def _print(target: str, result: Verification, hints: list[str]) -> None:
    ranks = f", {result.world} ranks" if result.world > 1 else ""
    print(
        f"One step of {target}: {result.design}, {result.layers} sublayers{ranks}, against fp64, tolerance "
        f"{result.tolerance:g}"
    )
    columns = (
        Column(title=""),
        Column(title="quantity"),
        Column(title="entries", right=True),
        Column(title="recorded", right=True),
        Column(title="fp64", right=True),
        Column(title="difference", right=True),
    )
    print_table(
        columns,
        [
            [
                "ok" if each.ok else "NOT OK",
                each.quantity,
                str(each.entries),
                f"{each.recorded:.6g}",
                f"{each.reference:.6g}",
                f"{each.difference:.2g}",
            ]
            for each in result.compared
        ],
    )
    for name, reason in result.missing.items():
        print(f"  {name}: {reason}")
    for note in (*result.notes, *hints):
        print(f"  note: {note}")
    wrong = [each.quantity for each in result.compared if not each.ok]
    verdict = f"{len(wrong)} of {len(result.compared)} differ: {', '.join(wrong)}" if wrong else "all agree"
    print(f"{len(result.compared)} quantities compared at the entry where they differ most: {verdict}")


def _hints(model: nn.Module) -> list[str]:
    """Return what else is at work in the process or on the model that a recording may meet."""
    hints = []
    if "nnsight" in sys.modules:
        hints.append("nnsight is loaded in this process: keep it out of the one that trains")
    hooks = [
        hook
        for module in model.modules()
        for held in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        for hook in held.values()
    ]
    theirs = sum(str(getattr(hook, "__module__", "")).startswith("wandb") for hook in hooks)
    if theirs:
        hints.append(
            f"wandb.watch has {theirs} hooks on the model, which break compiled graphs and cost time"
        )
    if os.environ.get("TORCH_LOGS"):
        hints.append("TORCH_LOGS is set")
    return hints


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; expected one above 0") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text}; expected a number above 0")
    return value


DOCTOR = Command(
    name="doctor",
    summary="is this machine, and is this training step, fit to be recorded?",
    description="Without arguments, print what a recording depends on here. With --verify, run one step of your own "
    "training setup (compile, autocast, accumulation, clipping and ranks as launched), record it, and compare every "
    "number with the same step of a copy in double precision. Under torchrun every rank types the same, and rank 0 "
    "prints. Exit code: 0 all agree, 1 something does not, 2 the command line was not understood.",
    examples=(
        ("depthscope doctor", "versions, devices, file locks, other people's probes"),
        ("depthscope doctor --verify train:setup", "setup() of train.py returns (model, optimizer, step)"),
        (
            "torchrun --nproc-per-node=2 -m depthscope doctor --verify train:setup",
            "the same among ranks: setup() calls init_process_group and wraps the model",
        ),
    ),
    add_arguments=add_arguments,
    run=run,
)
