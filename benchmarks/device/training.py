"""Three designs trained on real text in turns for the time that is left, and their figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.device.setting import Line, Setting
from depthscope.models import Decoder
from depthscope.recording import Recorder
from depthscope.report import export
from depthscope.store import open_run
from depthscope.training import (
    CUDA_SIZE,
    Corpus,
    DemoOptions,
    DemoSize,
    Trainer,
    TrainingOptions,
    build_decoder,
    read_corpus,
    run_config,
)

SECTION = "training"
DESIGNS = ("prenorm", "block-attnres:S=4", "hires:n=2")
FIGURES = {
    "depth-profile": DESIGNS,
    "depth-map": DESIGNS,
    "depth-attention": DESIGNS[1:2],
    "block-boundaries": DESIGNS[:2],
    "skip-paths": DESIGNS[1:2],
    "outer-state": DESIGNS[2:],
}
TINY = DemoSize(width=16, layers=8, heads=2, context=16, batch=2, steps=6, learning_rate=3e-3)
TRIAL_STEPS = 5
RESERVED = 25.0
"""Seconds kept for the figures."""


def training(setting: Setting, out: Path) -> Iterator[Line]:
    size, corpus = TINY if setting.rehearsal else CUDA_SIZE, read_corpus()
    steps = size.steps if setting.rehearsal else min(size.steps, _steps_in(setting, size, corpus))
    if steps < 4:
        yield Line(
            section=SECTION, what="three designs", note=f"left out: {setting.seconds_left:.0f} s are left"
        )
        return
    trained = DemoOptions(steps=steps).training(size)
    losses = _train(setting, size, trained, corpus, out)
    for design, loss in losses.items():
        yield Line(
            section=SECTION,
            what=f"{design}: validation loss after {steps} steps",
            value=loss,
            unit="nats/byte",
        )
    ending = "pdf" if find_spec("matplotlib") else "html"
    for figure, designs in FIGURES.items():
        runs = [open_run(out / "runs" / _folder(design)) for design in designs]
        written = export(figure, runs, out / f"{figure}.{ending}").figure
        size_kb = written.stat().st_size / 1000
        yield Line(
            section=SECTION,
            what=f"{figure} of {', '.join(designs)}",
            value=size_kb,
            unit="kB",
            note=written.name,
        )


def _models(setting: Setting, size: DemoSize) -> dict[str, Decoder]:
    config = DemoOptions().decoder(size)
    return {design: build_decoder(design, config, seed=0).to(setting.device) for design in DESIGNS}


def _steps_in(setting: Setting, size: DemoSize, corpus: Corpus) -> int:
    """Return how many steps of all designs fit into the time left, by trial."""
    trials = [
        Trainer(model, corpus, DemoOptions(steps=100).training(size))
        for model in _models(setting, size).values()
    ]
    for trainer in trials:
        trainer.step()
    torch.cuda.synchronize()
    started = time.monotonic()
    for trainer in trials:
        for _ in range(TRIAL_STEPS):
            trainer.step()
    torch.cuda.synchronize()
    seconds = (time.monotonic() - started) / TRIAL_STEPS
    # Recording and validation come on top.
    return int((setting.seconds_left - RESERVED) / (1.25 * seconds))


def _train(
    setting: Setting, size: DemoSize, options: TrainingOptions, corpus: Corpus, out: Path
) -> dict[str, float]:
    with ExitStack() as recorders:
        trainers = {}
        for design, model in _models(setting, size).items():
            trainer = trainers[design] = Trainer(model, corpus, options)
            trainer.recorder = recorders.enter_context(
                Recorder(
                    model,
                    out / "runs" / _folder(design),
                    optimizer=trainer.optimizers,
                    every={"fast": 1, "slow": 2 if setting.rehearsal else 10},
                    config=run_config(model, options, corpus),
                    name=design,
                )
            )
            trainer.validate()
        for _ in range(options.steps):
            for trainer in trainers.values():
                trainer.step()
                if trainer.validation_is_due() and trainer.completed < options.steps:
                    trainer.validate()
        return {design: trainer.validate() for design, trainer in trainers.items()}


def _folder(design: str) -> str:
    return design.translate({ord(":"): "-", ord("="): None, ord(","): "-"})
