"""A hundred recorded steps in which nothing may wait for the device: torch raises where the host would."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.device.setting import Line, Setting, loss_of, needs_cuda
from depthscope.recording import Recorder
from depthscope.store import open_run

SECTION = "synchronisation"
WARM, STEPS, REHEARSED = 3, 100, 9
EVERY = {"fast": 1, "slow": 2}
"""Both streams are recorded, and their code compiled, before waiting is forbidden."""


def synchronisation(setting: Setting) -> Iterator[Line]:
    for way in ("eager", "compiled"):
        torch._dynamo.reset()
        steps = REHEARSED if setting.rehearsal else STEPS
        rows = _run(setting, way == "compiled", steps)
        due = (WARM + steps, (WARM + steps + 1) // 2)
        yield Line(
            section=SECTION,
            what=f"{way}: rows of {steps} steps and {WARM} before them, fast and slow",
            value=rows[0],
            note=f"slow {rows[1]}",
            limit=f"{due[0]} and {due[1]}",
            held=rows == due,
        )
    if setting.rehearsal:
        yield needs_cuda(SECTION, 'torch.cuda.set_sync_debug_mode("error") over these steps')


def _run(setting: Setting, compiled: bool, steps: int) -> tuple[int, int]:
    """Return the rows recorded; a wait is a RuntimeError of torch."""
    width, layers = (32, 2) if setting.rehearsal else (256, 4)
    model = setting.decoder("block-attnres:S=2", width=width, layers=layers, heads=4, context=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    path = setting.folder / f"synchronisation-{compiled}"
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder:
        called = setting.compile(model) if compiled else model

        def step() -> None:
            inputs, targets = setting.tokens(4, 32)
            with setting.autocast():
                loss = loss_of(called, inputs, targets)
            loss.backward()  # type: ignore[no-untyped-call]
            recorder.before_clip()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            recorder.step(
                loss=loss.detach(),
                tokens=inputs.numel(),
                grad_norm=norm,
                max_norm=1.0,
                metrics={"last_loss": loss.detach()},
            )
            optimizer.zero_grad()
            recorder.evaluation(validation=loss.detach())

        for _ in range(WARM):
            step()
        with _waiting_forbidden(setting):
            for _ in range(steps):
                step()
    run = open_run(path)
    return len(run["state_rms"]), len(run["depth_attention"])


class _waiting_forbidden:
    def __init__(self, setting: Setting) -> None:
        self.cuda = not setting.rehearsal

    def __enter__(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_: object) -> None:
        if self.cuda:
            torch.cuda.set_sync_debug_mode("default")
