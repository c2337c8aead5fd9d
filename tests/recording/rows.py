"""Record one step of a trained model, and keep the rows as they were before storage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from depthscope.store import RunWriter
from tests.recording.loops import batches, loss_of, optimizer_of, train


def spy_on_rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[int, dict[str, np.ndarray]]]:
    """Return a dict that fills with stream -> step -> quantity -> value as rows reach the store."""
    rows: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    original = RunWriter.append

    def append(self: RunWriter, stream: str, step: int, values: Mapping[str, Any]) -> bool:
        kept = {name: np.array(value, dtype=np.float64) for name, value in values.items()}
        rows.setdefault(stream, {})[step] = kept
        return original(self, stream, step, values)

    monkeypatch.setattr(RunWriter, "append", append)
    return rows


def trained(model: nn.Module, steps: int = 20) -> tuple[nn.Module, Tensor, Tensor]:
    """Train `model` for some steps; return it with the batch that comes next."""
    draw = batches()
    optimizer = optimizer_of(model)
    train(model, steps, draw, optimizer)
    return model, *draw()


def record_one(
    model: nn.Module, inputs: Tensor, targets: Tensor, path: Path, *, compiled: bool = False, **options: Any
) -> Recorder:
    """Record one optimizer step, eager or compiled, whose learning rate is 0 so that the weights stay."""
    optimizer = optimizer_of(model)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    called = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    with Recorder(called, path, optimizer=optimizer, every={"fast": 1, "slow": 1}, **options) as recorder:
        loss = loss_of(called, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
        optimizer.zero_grad()
    return recorder
