"""Fault 3: activation checkpointing runs a part of the forward twice, reentrant and not, compiled and not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from depthscope.recording import Recorder
from tests.faults.compiling import FROM_TORCH_ITSELF, each_block, eager, whole
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording.loops import ForeignGPT, build, loss_of
from tests.recording.rows import spy_on_rows, trained

pytestmark = FROM_TORCH_ITSELF


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Checkpointed(ForeignGPT):
    """The foreign GPT with its blocks recomputed in the backward, when asked to."""

    reentrant = False
    recomputes = False

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.places.weight[: ids.shape[1]]
        for stage in self.tower:
            x = checkpoint(stage, x, use_reentrant=self.reentrant) if self.recomputes else stage(x)
        return self.out(self.last(x))


def step_of_two(model: Any, called: Any, optimizer: Any, recorder: Recorder, batch: Any) -> None:
    """One optimizer step of which only the first half is recomputed: whatever counts twice shifts the means."""
    inputs, targets = batch
    for half, wanted in zip(inputs.chunk(2), targets.chunk(2), strict=True):
        model.recomputes = half.data_ptr() == inputs.data_ptr()
        (loss_of(called, half, wanted) / 2).backward()
    optimizer.step()
    recorder.step(tokens=inputs.numel())
    optimizer.zero_grad()


@pytest.mark.parametrize("way", [eager, whole, each_block])
@pytest.mark.parametrize("reentrant", [False, True])
def test_the_recomputation_is_not_recorded_twice(
    reentrant: bool, way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(build("foreign"))
    inputs, targets = inputs.repeat(2, 1), targets.repeat(2, 1)
    inputs[: len(inputs) // 2] = inputs[0, 0]
    model = Checkpointed()
    model.load_state_dict(plain.state_dict())
    model.reentrant = reentrant
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        called = way(model)
        for _ in range(2):
            step_of_two(model, called, optimizer, recorder, (inputs, targets))
    expected = truth(plain, inputs, targets)
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_sublayer_recomputed_up_to_its_last_module_only(
    reentrant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early stop: of a checkpointed sublayer all modules run twice but the last, whose output nobody saved."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    calls: dict[str, int] = {}
    for name in ("norm", "sublayer"):
        module: nn.Module = getattr(model.layers[3], name)
        # In training mode only: replays of a sample run the model in evaluation mode.
        module.register_forward_hook(
            lambda module, *_, name=name: calls.update({name: calls.get(name, 0) + module.training})
        )
    for layer in model.layers:
        layer.forward = lambda state, call=layer.forward: checkpoint(call, state, use_reentrant=reentrant)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
    assert calls["norm"] == 2
    same(rows["fast"][0], expected, *ALL)
    assert rows["fast"][0]["loss_tokens"] == inputs.numel()
