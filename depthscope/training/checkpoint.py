"""Checkpoints of the reference decoder: weights with the design and the sizes that they belong to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from depthscope.models import Decoder, DecoderConfig, residual_from_string

FOLDER = "checkpoints"
_FORMAT = 1


class CheckpointError(ValueError):
    """A file that is no checkpoint of the reference decoder; the message says what was found."""


def checkpoint_path(run: Path, step: int) -> Path:
    """Return where a run keeps the weights after so many optimizer steps."""
    return run / FOLDER / f"step-{step:08d}.pt"


def newest_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint of a run with the most steps; None where it has none."""
    return max((run / FOLDER).glob("step-*.pt"), default=None)


def save_checkpoint(path: Path, model: Decoder, *, step: int) -> None:
    """Write a model after `step` optimizer steps; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    held = {
        "depthscope": _FORMAT,
        "design": model.residual.design,
        "config": asdict(model.config),
        "step": step,
        "model": model.state_dict(),
    }
    torch.save(held, partial)
    os.replace(partial, path)


def is_checkpoint(held: Any) -> bool:
    """Return whether what a file holds was written by `save_checkpoint`."""
    return isinstance(held, Mapping) and "depthscope" in held and "design" in held


def restore(held: Mapping[str, Any]) -> tuple[Decoder, int]:
    """Return the model and the steps of what `save_checkpoint` wrote, as `torch.load` gives it."""
    if held["depthscope"] != _FORMAT:
        raise CheckpointError(f"a checkpoint of format {held['depthscope']!r}; this version reads {_FORMAT}")
    try:
        config = DecoderConfig(**held["config"])
        model = Decoder(config, residual_from_string(held["design"], config))
        model.load_state_dict(held["model"])
        return model.eval(), int(held["step"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"the checkpoint does not fit the reference decoder: {error}") from None
