"""`depthscope demo`: residual designs trained in turns on real text, recorded, and shown while they grow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from depthscope.models import Decoder
from depthscope.training.checkpoint import checkpoint_path, save_checkpoint
from depthscope.training.corpus import Corpus, CorpusError, read_corpus
from depthscope.training.demo_options import DemoOptions
from depthscope.training.demo_plan import DemoError, make_root, prepare, run_names
from depthscope.training.page import NoPage, Page
from depthscope.training.progress import Bars, Lines, progress
from depthscope.training.round_robin import train_round_robin
from depthscope.training.run_config import run_config
from depthscope.training.termination import terminate_as_exit
from depthscope.training.threads import half_the_threads
from depthscope.training.trainer import Trainer, TrainingOptions

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended, as shells expect it."""
FAILED = 1


def run_demo(options: DemoOptions, console: Console | None = None) -> int:
    """Train, record and show the designs; return the program's exit code.

    0 when training ended (and the page, if any, was left with Ctrl-C), 130 when Ctrl-C ended the training: all rows
    so far are in the runs. DemoError, before anything is created, for options that cannot be carried out.
    """
    console = console or Console()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    names = run_names(options.designs)
    models, training = prepare(options, device)
    try:
        corpus = read_corpus()
    except CorpusError as error:
        raise DemoError(str(error)) from None
    root = make_root(options.out, names) if options.record else None
    trained = False
    try:
        with terminate_as_exit(), half_the_threads(), _page(options, root) as page:
            _announce(console, models, training, root, page)
            _train(console, options, dict(zip(names, models, strict=True)), training, corpus, root, page)
            trained = True
            if page.address is None:
                return 0
            _say(console, f"The page stays at {page.address} until Ctrl-C.")
            if page.wait():
                return 0
            _say(console, str(page.trouble()))
            return FAILED
    except KeyboardInterrupt:
        if trained:
            return 0
        kept = "" if root is None else f" What was recorded is in {root}."
        _say(console, f"Stopped.{kept}")
        return INTERRUPTED


def _say(console: Console, text: str) -> None:
    # As it is: no markup from a path's brackets, no line breaks inside an address.
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _page(options: DemoOptions, root: Path | None) -> NoPage:
    return Page(root, options.port) if options.serve and root is not None else NoPage()


def _announce(
    console: Console,
    models: list[Decoder],
    training: TrainingOptions,
    root: Path | None,
    page: NoPage,
) -> None:
    config = models[0].config
    text = (
        f"{len(models)} {'designs' if len(models) > 1 else 'design'}, {training.steps} steps each: {config.layers} sublayers of width {config.width}, "
        f"{training.tokens_per_step} bytes of Python's standard library a step."
    )
    lines = [text]
    if root is not None:
        lines.append(f"Runs: {root}")
    if page.address is not None:
        lines.append(f"Page: {page.address} (there in a few seconds)")
    for line in lines:
        _say(console, line)


def _train(
    console: Console,
    options: DemoOptions,
    models: Mapping[str, Decoder],
    training: TrainingOptions,
    corpus: Corpus,
    root: Path | None,
    page: NoPage,
) -> None:
    trainers = {name: Trainer(model, corpus, training) for name, model in models.items()}
    with ExitStack() as recorders, progress(console, list(models), training.steps, page.address) as shown:
        if root is not None:
            for name, trainer in trainers.items():
                config = run_config(models[name], training, corpus)
                _record(recorders, trainer, root / name, name, config, options)
        watcher = _Watcher(
            console, shown, page, _Checkpoints(trainers, models, root, options.checkpoint_every)
        )
        train_round_robin(trainers, watcher)
    _say(console, "Validation loss (nats per byte) at the end:")
    for name, loss in watcher.validation.items():
        _say(console, f"  {name}  {loss:.4f}")


def _record(
    stack: ExitStack, trainer: Trainer, path: Path, name: str, config: Mapping[str, Any], options: DemoOptions
) -> None:
    # Here, so that training without a record loads neither recorder nor store.
    from depthscope.recording import Recorder

    recorder = Recorder(
        trainer.model,
        path,
        optimizer=trainer.optimizers,
        every={"fast": options.every_fast, "slow": options.every_slow},
        config=config,
        name=name,
    )
    trainer.recorder = stack.enter_context(recorder)


class _Checkpoints:
    """Writes the weights of a model into its run where they are due."""

    def __init__(
        self,
        trainers: Mapping[str, Trainer],
        models: Mapping[str, Decoder],
        root: Path | None,
        every: int | None,
    ) -> None:
        self._trainers, self._models, self._root, self._every = trainers, models, root, every

    def stepped(self, name: str, completed: int) -> None:
        if self._root is None or self._every is None:
            return
        if completed % self._every == 0 or completed == self._trainers[name].options.steps:
            save_checkpoint(checkpoint_path(self._root / name, completed), self._models[name], step=completed)


class _Watcher:
    """Passes what happens to the progress and the checkpoints, keeps the last validation losses, and says once if the page is gone."""

    def __init__(
        self, console: Console, shown: Bars | Lines, page: NoPage, checkpoints: _Checkpoints
    ) -> None:
        self.validation: dict[str, float] = {}
        self._checkpoints = checkpoints
        self._console = console
        self._shown = shown
        self._page = page
        self._told = False

    def stepped(self, name: str, completed: int, loss: torch.Tensor) -> None:
        self._shown.stepped(name, completed, loss)
        self._checkpoints.stepped(name, completed)
        if not self._told and (trouble := self._page.trouble()):
            self._told = True
            _say(self._console, f"{trouble}; training goes on.")

    def validated(self, name: str, loss: float) -> None:
        self.validation[name] = loss
        self._shown.validated(name, loss)
