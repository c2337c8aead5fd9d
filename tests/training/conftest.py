"""A small text and small models to train on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from depthscope.models import DecoderConfig
from depthscope.training import Corpus, Trainer, TrainingOptions, build_decoder


@pytest.fixture
def corpus() -> Corpus:
    """Text with something to learn: numbers in order."""
    text = " ".join(map(str, range(1200))).encode()
    data = torch.tensor(list(text), dtype=torch.uint8)
    return Corpus(
        train=data[:-1000],
        validation=data[-1000:],
        train_files=("a",),
        validation_files=("b",),
        digest="0" * 64,
    )


@pytest.fixture
def options() -> TrainingOptions:
    return TrainingOptions(steps=20, batch=4, context=16, learning_rate=1e-2, validation_every=10)


@pytest.fixture
def build(corpus: Corpus, options: TrainingOptions) -> Callable[..., Trainer]:
    """Return ``build(design, options=..., seed=0)``: a trainer of a small decoder."""
    config = DecoderConfig(width=24, layers=4, heads=3, context=16)

    def build(design: str = "prenorm", *, options: TrainingOptions = options, seed: int = 0) -> Trainer:
        return Trainer(build_decoder(design, config, seed=seed), corpus, options)

    return build
