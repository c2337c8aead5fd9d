"""What a recorded run remembers of how it was trained."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from depthscope.models import Decoder
from depthscope.training.corpus import Corpus
from depthscope.training.trainer import TrainingOptions


def run_config(model: Decoder, training: TrainingOptions, corpus: Corpus) -> dict[str, Any]:
    """Return the configuration that a run is stored with."""
    schedule = training.schedule
    return {
        "design": model.residual.design,
        "kind": model.residual.label,
        **{key: value for key, value in asdict(training).items() if key not in ("batch", "context")},
        "schedule": {
            "warmup": schedule.warmup,
            "decay_start": schedule.decay_start,
            "total": schedule.total,
        },
        "batch": training.batch,
        "context": training.context,
        "tokens_per_step": training.tokens_per_step,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "model": asdict(model.config),
        "corpus": {
            "text": "source of Python's standard library, by bytes",
            "digest": corpus.digest,
            "train_bytes": len(corpus.train),
            "validation_bytes": len(corpus.validation),
        },
    }
