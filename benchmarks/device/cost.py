"""What recording every step costs at the size that recording.md names: d 2048, 48 sublayers, 8 x 2048 tokens, bf16."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.device.setting import Line, Setting, at_most, loss_of
from benchmarks.paired import interval, pairs
from depthscope.models import Decoder
from depthscope.recording import Recorder
from depthscope.store import open_run

SECTION = "cost"
LIMIT = {"compiled": 1.01}
PAIRS = 30
WARM = 3
SECONDS = {"compiled": 240.0, "eager": 75.0}
"""What each way needs, compiling included; less is left, less is measured."""


@dataclass(frozen=True, kw_only=True)
class Size:
    width: int
    layers: int
    heads: int
    batch: int
    context: int

    def __str__(self) -> str:
        return f"d {self.width}, {self.layers} sublayers, {self.batch} x {self.context}"


LARGE = Size(width=2048, layers=48, heads=16, batch=8, context=2048)
TINY = Size(width=32, layers=4, heads=2, batch=2, context=16)


class _Copy:
    """One of two models that hold the same parameters, with an optimizer of its own."""

    def __init__(self, setting: Setting, model: Decoder, size: Size) -> None:
        self.setting, self.model, self.size = setting, model, size
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=not setting.rehearsal)
        self.called: Any = model
        self.recorder: Recorder | None = None
        self.steps = 0

    def step(self) -> None:
        inputs, targets = self.setting.tokens(self.size.batch, self.size.context)
        with self.setting.autocast():
            loss = loss_of(self.called, inputs, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.recorder is not None:
            self.recorder.step(loss=loss.detach(), tokens=inputs.numel())
        self.optimizer.zero_grad()
        self.steps += 1


def cost(setting: Setting) -> Iterator[Line]:
    size = TINY if setting.rehearsal else LARGE
    for way in ("compiled", "eager"):
        if setting.seconds_left < SECONDS[way] and not setting.rehearsal:
            yield Line(section=SECTION, what=way, note=f"left out: {setting.seconds_left:.0f} s are left")
            continue
        yield from _measured(setting, way, size)


def _measured(setting: Setting, way: str, size: Size) -> Iterator[Line]:
    while True:
        try:
            yield from _compare(setting, way, size)
            return
        except torch.OutOfMemoryError:
            if size.batch == 1:
                raise
        # Behind the handler, which still holds what did not fit.
        size = replace(size, batch=size.batch // 2)
        torch.cuda.empty_cache()
        yield Line(section=SECTION, what=way, note=f"out of memory; {size} instead")


def _compare(setting: Setting, way: str, size: Size) -> Iterator[Line]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(
        skip_nnmodule_hook_guards=False
    ):  # or one of the two would run as the other
        yield from _of_two(setting, way, size)


def _of_two(setting: Setting, way: str, size: Size) -> Iterator[Line]:
    model = setting.decoder(
        "prenorm", width=size.width, layers=size.layers, heads=size.heads, context=size.context
    )
    shared = {id(parameter): parameter for parameter in model.parameters()}
    plain, recorded = (_Copy(setting, each, size) for each in (copy.deepcopy(model, memo={**shared}), model))
    path = setting.folder / f"cost-{way}-{size.batch}"
    with Recorder(model, path, optimizer=recorded.optimizer, every={"fast": 1, "slow": 100}) as recorder:
        recorded.recorder = recorder
        for each in (plain, recorded):
            each.called = setting.compile(each.model) if way == "compiled" else each.model
            for _ in range(WARM):
                each.step()
        measured = []
        for pair in pairs(plain.step, recorded.step, 4 if setting.rehearsal else PAIRS, setting.seconds):
            measured.append(pair)
            if setting.seconds_left < 30 and len(measured) >= 10:
                break
    states = open_run(path)["state_rms"].values
    if states.shape != (recorded.steps, size.layers) or not np.isfinite(states).all():
        raise AssertionError(
            f"{way}: {np.isfinite(states).sum()} values in {len(states)} rows, expected {size.layers} in each of "
            f"{recorded.steps}"
        )
    found = interval([after / before for before, after in measured])
    milliseconds = 1000 * interval([before for before, _ in measured]).median
    what, note = (
        f"{way}, {size}, every step",
        f"{found.low:.3f} to {found.high:.3f}, plain {milliseconds:.1f} ms",
    )
    if way in LIMIT and not setting.rehearsal:
        # Missed when even the lower end of the interval lies above the limit.
        yield at_most(SECTION, f"{what}: lower end of the ratio", found.low, LIMIT[way], note=note)
    yield Line(section=SECTION, what=f"{what}: ratio", value=found.median, note=note)
    _release(plain.model)


def _release(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
