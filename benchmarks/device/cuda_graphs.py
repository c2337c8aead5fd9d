"""`mode="reduce-overhead"`: numbers as without, and no graph captured again when recording goes on and off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._dynamo.utils import counters

from benchmarks.device.setting import Line, Setting, at_most, loss_of, needs_cuda
from depthscope.recording import Recorder
from depthscope.store import open_run

SECTION = "cuda graphs"
EVERY = {"fast": 2, "slow": 4}
"""Each state of recording comes in turn: both streams, nothing, the fast one, nothing."""
WARM, TOGGLED, REHEARSED = 16, 40, 8
COMPARED = (
    "state_rms",
    "write_ratio",
    "grad_write_rms",
    "param_grad_norm",
    "depth_attention",
    "abs_max",
    "loss",
)


def cuda_graphs(setting: Setting) -> Iterator[Line]:
    torch._dynamo.reset()
    counters.clear()
    steps = REHEARSED if setting.rehearsal else TOGGLED
    eager, _, _ = _run(setting, "eager", 0)
    replayed, captured, graphs = _run(setting, "graphs", steps)
    errors = {name: _largest_error(eager, replayed, name) for name in COMPARED}
    worst = max(errors, key=lambda name: errors[name])
    rows = f"{worst}, {WARM // EVERY['fast']} rows"
    yield at_most(SECTION, "largest error of rows against eager code", errors[worst], 1e-3, note=rows)
    yield at_most(SECTION, f"graphs that dynamo added in {steps} more steps", graphs, 0)
    if setting.rehearsal:
        yield needs_cuda(SECTION, f"captures in {steps} more steps; graphs that inductor left out")
        return
    skipped = counters["inductor"]["cudagraph_skips"]
    yield at_most(SECTION, f"captures in {steps} more steps", captured, 0)
    yield at_most(SECTION, "graphs that inductor left out", skipped, 0)


def _run(setting: Setting, way: str, more: int) -> tuple[Path, int, int]:
    """Train `WARM` steps, and `more`; return the run, and what was captured and compiled in the latter."""
    width, layers = (32, 2) if setting.rehearsal else (256, 4)
    model = setting.decoder("block-attnres:S=2", width=width, layers=layers, heads=4, context=32, seed=1)
    # No training: rounding would drive the two ways apart, and the rows are of the same weights so.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    path = setting.folder / f"graphs-{way}"
    torch.manual_seed(2)
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder, _captures() as captures:
        called = model if way == "eager" else setting.compile(model, mode="reduce-overhead")

        def step() -> None:
            inputs, targets = setting.tokens(4, 32)
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            loss = loss_of(called, inputs, targets)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            recorder.step(loss=loss.detach(), tokens=inputs.numel())
            optimizer.zero_grad()

        for _ in range(WARM):
            step()
        captured, graphs = len(captures), counters["stats"]["unique_graphs"]
        for _ in range(more):
            step()
        return path, len(captures) - captured, counters["stats"]["unique_graphs"] - graphs


@contextlib.contextmanager
def _captures() -> Iterator[list[object]]:
    """Collect the graphs that inductor captures."""
    from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

    found: list[object] = []
    original = CUDAGraphTreeManager.record_function

    def record(self: Any, inputs: Any, function: Any) -> Any:
        found.append(function)
        return original(self, inputs, function)

    setattr(CUDAGraphTreeManager, "record_function", record)  # noqa: B010 - for this once
    try:
        yield found
    finally:
        setattr(CUDAGraphTreeManager, "record_function", original)  # noqa: B010


def _largest_error(eager: Path, replayed: Path, name: str) -> float:
    """Return the largest relative error over the rows that both have."""
    expected, found = (open_run(path)[name] for path in (eager, replayed))
    found = found.sel(step=expected.step)
    return float(
        np.nanmax(np.abs(found.values - expected.values) / np.maximum(np.abs(expected.values), 1e-12))
    )
