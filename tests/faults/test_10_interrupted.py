"""Fault 10: an exception, no memory or Ctrl-C in forward or backward: half a step is no step, and hooks stay healthy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.compiling import FROM_TORCH_ITSELF, each_block
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording.loops import ForeignGPT, build, loss_of
from tests.recording.rows import spy_on_rows, trained

INTERRUPTIONS = (RuntimeError, torch.OutOfMemoryError, KeyboardInterrupt)
FOREIGN = {"before the first block": "tower.0", "in a block": "tower.1.beta", "behind the blocks": "out"}


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def left_on(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


class Interrupts:
    """A hook that raises, once it is armed."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error, self.armed = error, False

    def __call__(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            raise self.error("interrupted")


def then_a_whole_step(
    model: Any,
    interrupts: Interrupts,
    path: Path,
    rows: dict[str, Any],
    batch: Any,
    *,
    blocks_compiled: bool = False,
) -> None:
    """Interrupt a step over other tokens; look in between, as people do; then make a whole one."""
    inputs, targets = batch
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    with Recorder(model, path, optimizer=optimizer, example=inputs) as recorder:
        if blocks_compiled:
            each_block(model)
        one_step(model, optimizer, recorder, inputs, targets)
        interrupts.armed = True
        with pytest.raises(interrupts.error, match="interrupted"):
            loss_of(model, inputs * 0, targets).backward()
        assert not interrupts.armed
        optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            model(inputs * 0)
        model.train()
        one_step(model, optimizer, recorder, inputs, targets)
    assert list(rows["fast"]) == [0, 1]
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)
        assert rows["fast"][step]["loss_tokens"] == inputs.numel()


@pytest.mark.parametrize("error", INTERRUPTIONS)
@pytest.mark.parametrize("place", FOREIGN)
def test_half_a_forward_is_discarded(
    place: str, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, interrupts = spy_on_rows(monkeypatch), Interrupts(error)
    model, *batch = trained(ForeignGPT(stages=2))
    model.get_submodule(FOREIGN[place]).register_forward_pre_hook(interrupts)
    then_a_whole_step(model, interrupts, tmp_path / "run", rows, batch)


@pytest.mark.parametrize("error", INTERRUPTIONS)
@pytest.mark.parametrize("design", ["foreign", "block-attnres:S=3"])
def test_half_a_backward_is_discarded(
    design: str, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, interrupts = spy_on_rows(monkeypatch), Interrupts(error)
    model, *batch = trained(build(design))
    norm = model.tower[1].w if design == "foreign" else model.layers[2].norm
    norm.register_full_backward_pre_hook(interrupts)
    then_a_whole_step(model, interrupts, tmp_path / "run", rows, batch)


@FROM_TORCH_ITSELF
@pytest.mark.parametrize("error", INTERRUPTIONS)
def test_what_compiled_blocks_added_up_of_half_a_forward_is_discarded(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, interrupts = spy_on_rows(monkeypatch), Interrupts(error)
    model, *batch = trained(ForeignGPT(stages=2))
    model.last.register_forward_pre_hook(interrupts)
    then_a_whole_step(model, interrupts, tmp_path / "run", rows, batch, blocks_compiled=True)


@pytest.mark.parametrize("error", INTERRUPTIONS)
def test_leaving_by_an_exception_detaches_and_writes_what_was_whole(
    error: type[BaseException], tmp_path: Path
) -> None:
    model, inputs, targets = trained(build("prenorm"))
    interrupts, optimizer = Interrupts(error), without_updates(model)
    model.layers[3].register_forward_pre_hook(interrupts)

    def loop(recorder: Recorder) -> None:
        one_step(model, optimizer, recorder, inputs, targets)
        interrupts.armed = True
        one_step(model, optimizer, recorder, inputs, targets)

    with (
        pytest.raises(error, match="interrupted"),
        Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder,
    ):
        loop(recorder)
    assert left_on(model) == 1
    assert not optimizer._optimizer_step_pre_hooks
    run = open_run(tmp_path / "run")
    assert run["state_rms"].step.values.tolist() == [0]
    assert run.status == "stopped"
