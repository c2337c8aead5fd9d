"""`depthscope causal`: what cutting a source, a sublayer or an outer state does to the loss of a checkpoint."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from depthscope.cli.causal_tables import print_effects, print_lens, print_paths
from depthscope.cli.command import Command
from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.options import count, natural
from depthscope.cli.runs import open_named
from depthscope.cli.subject import Measured, checkpoint_of, demo_batches, place
from depthscope.cli.target import call, each, load

if TYPE_CHECKING:
    import xarray as xr

    from depthscope.store import Run

LENS = "lens"
KINDS = ("sources", "families", "sublayers", "outer", "resets", LENS)
BATCHES = 8
MODES = ("renormalise", "zero", "mean", "resample")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the recorded run that the checkpoint belongs to")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="weights: a state dict, or a mapping that holds one as model, state_dict or model_state_dict "
        "(default: the newest of RUN/checkpoints)",
    )
    parser.add_argument(
        "--model",
        metavar="module:factory",
        help="a function without arguments that returns the model (default: a demo's checkpoint knows its own)",
    )
    parser.add_argument(
        "--data",
        metavar="module:function",
        help="a function that returns held-out batches: token ids [batch, time + 1], pairs (inputs, targets), or "
        "mappings with 'labels' (default, for a demo: its held-out text)",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="sources",
        help="what is measured: each source of each target; families of sources; sublayers knocked out; reads, writes "
        "and extra features of an outer state; residual-block resets undone; lenses into depth (default: sources)",
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        help="what stands in place of what is cut (default: renormalise where there are weights, else zero)",
    )
    parser.add_argument("--batches", type=count, metavar="N", help=f"batches measured (default: {BATCHES})")
    parser.add_argument(
        "--step", type=natural, metavar="N", help="steps the checkpoint was trained for, if it does not say"
    )
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="name of the store RUN/causal/NAME.zarr "
        "(default: KIND-STEP, or KIND-MODE-STEP where the mode is not the default)",
    )


def run(arguments: argparse.Namespace) -> int:
    for package, extra in (("torch", "record"), ("nnsight", "causal")):
        if importlib.util.find_spec(package) is None:
            raise CliError(
                f"causal needs {package}, which is not installed; type: pip install 'depthscope[{extra}]'"
            )
    from depthscope.causal import BatchError, CausalError, batches_of
    from depthscope.store import RunError, sweep_path

    if arguments.kind in (LENS, "resets") and arguments.mode is not None:
        raise UsageError(f"causal: --kind {arguments.kind} cuts nothing that a --mode could replace")
    found = open_named(arguments.run, "causal")
    measured = checkpoint_of(found.path, arguments.checkpoint, arguments.model, arguments.step)
    place(measured.model, arguments.device)
    name = arguments.name or _name(arguments, measured, found)
    try:
        path = sweep_path(found.path, name)
    except ValueError as error:
        raise UsageError(f"causal: {error}") from None
    try:
        batches = batches_of(islice(_batches(arguments, measured), arguments.batches or BATCHES))
        _warn_of_few(arguments, len(batches))
        about = {"run": found.id, "step": measured.step, "checkpoint": str(measured.file.name)}
        data = _measured(arguments, measured, batches, path, about)
    except BatchError as error:
        source = f"--data {arguments.data!r}: " if arguments.data else ""
        raise CliError(f"causal: {source}{error}") from None
    except CausalError as error:
        raise CliError(f"causal: {error}") from None
    except RunError as error:
        raise CliError(f"causal: {error}") from None
    except ValueError as error:
        raise UsageError(f"causal: {error}") from None
    _print(found, arguments.kind, path, data)
    if "note" in data.attrs:
        print(data.attrs["note"])
    print(f"Kept in {path}")
    return 0


def _print(run: Run, kind: str, path: Path, data: xr.Dataset) -> None:
    from depthscope.analysis import effect_map, path_effects, steps_apart
    from depthscope.store import open_sweep

    if kind == LENS:
        print_lens(data)
        return
    sweep = open_sweep(path)
    effects = path_effects(run, sweep) if kind == "sources" else []
    if any(isfinite(each.weight) for each in effects):
        print_paths(effects, apart=steps_apart(sweep.step, effect_map(run, sweep).attrs["record_step"]))
    else:
        print_effects(data)


def _measured(
    arguments: argparse.Namespace, measured: Measured, batches: Any, path: Path, about: dict[str, Any]
) -> xr.Dataset:
    from depthscope.causal import measure_effects, measure_lenses

    with _Bar() as bar:
        if arguments.kind == LENS:
            return measure_lenses(measured.model, batches, path=path, about=about, advance=bar.advance)
        return measure_effects(
            measured.model,
            batches,
            arguments.kind,
            arguments.mode,
            path=path,
            about=about,
            advance=bar.advance,
        )


def _batches(arguments: argparse.Namespace, measured: Measured) -> Any:
    from depthscope.causal import iterate

    if arguments.data is not None:
        given = load(arguments.data, "--data")
        made = call(given, arguments.data, "--data") if callable(given) else given
        return each(iterate(made), arguments.data, "--data")
    if not measured.demo:
        raise UsageError(
            "causal: --data module:function is needed: only a demo's checkpoint brings its own text"
        )
    return demo_batches(measured.model, arguments.batches or BATCHES)


def _warn_of_few(arguments: argparse.Namespace, found: int) -> None:
    if arguments.batches is not None and found < arguments.batches:
        source = f"--data {arguments.data!r}" if arguments.data else "the held-out text"
        unknown = ", and of one batch the interval is not known" if found == 1 else ""
        note = f"--batches {arguments.batches}, but {source} gives {found}: fewer are measured{unknown}"
        print(f"depthscope: causal: {note}", file=sys.stderr)


def _name(arguments: argparse.Namespace, measured: Measured, run: Run) -> str:
    from depthscope.causal import default_mode

    # The run's mixers are the model's: another model is refused.
    usual = default_mode(arguments.kind, any(run.layout.sources))
    mode = None if arguments.mode == usual else arguments.mode
    parts = [arguments.kind, mode, None if measured.step is None else str(measured.step)]
    return "-".join(part for part in parts if part)


class _Bar:
    """How far a sweep is, on a terminal as a bar, in a log not at all."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("measuring", total=None)

    def advance(self, finished: int, total: int) -> None:
        self._progress.update(self._task, completed=finished, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


CAUSAL = Command(
    name="causal",
    summary="what cutting a source, a sublayer or an outer state does to the loss of a checkpoint",
    description="A routing weight describes; only an intervention shows an effect. Load a checkpoint of a recorded run, "
    "cut parts of its depth one at a time on held-out batches, and keep the change of the loss beside the run. "
    "A sweep that was killed goes on where it stopped when the same is typed again.",
    examples=(
        ("depthscope causal runs/block-attnres", "each depth source of a demo's newest checkpoint"),
        (
            "depthscope causal runs/a --kind sublayers --mode mean",
            "each sublayer's write replaced by its mean",
        ),
        (
            "depthscope causal runs/a --checkpoint a.pt --step 5000 --model train:build --data train:held_out",
            "a model of your own",
        ),
    ),
    add_arguments=add_arguments,
    run=run,
)
