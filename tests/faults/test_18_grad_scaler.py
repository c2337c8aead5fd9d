"""Fault 18: under a GradScaler the gradients are the true ones, and a step that it skips is kept and marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from tests.faults.truth import FORWARD, GRADIENTS, PARAMETERS, same, truth, without_updates
from tests.recording.loops import build, loss_of
from tests.recording.rows import spy_on_rows, trained

SCALE = 1024.0


def scaled_steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    path: Path,
    losses: list[Any],
    *,
    mentioned: bool = True,
) -> None:
    """Record a loop with a GradScaler; `losses` are called for the loss of each step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    with Recorder(model, path, optimizer=optimizer, scaler=scaler if mentioned else None) as recorder:
        for loss_function in losses:
            loss = loss_function()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            recorder.step(loss=loss.detach())
            optimizer.zero_grad()


@pytest.mark.parametrize("mentioned", [True, False])
def test_gradients_are_those_of_the_loss_without_its_scale(
    mentioned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    losses = [lambda: loss_of(model, inputs, targets)]
    scaled_steps(model, without_updates(model), tmp_path / "run", losses, mentioned=mentioned)
    row = rows["fast"][0]
    same(row, expected, *FORWARD, *GRADIENTS, *PARAMETERS, "loss")
    assert (row["loss_scale"], row["skipped"]) == (SCALE, 0)


def test_fp16_autocast_gives_what_tensor_hooks_see_over_the_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's hooks see gradients of the fp16 writes, times the scale; those of the fp32 states are not rounded."""
    rows = spy_on_rows(monkeypatch)
    model: Any
    model, inputs, targets = trained(build("prenorm"))
    fp32 = truth(model, inputs, targets)
    scaled: dict[int, Tensor] = {}

    def watch(index: int) -> Any:
        def keep(module: nn.Module, args: Any, output: Tensor) -> None:
            output.register_hook(lambda gradient: scaled.__setitem__(index, gradient.double()))

        return keep

    for index, layer in enumerate(model.layers):
        layer.sublayer.register_forward_hook(watch(index))

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return loss_of(model, inputs, targets)

    scaled_steps(model, without_updates(model), tmp_path / "run", [loss])
    row, tokens = rows["fast"][0], inputs.numel()
    by_hand = [
        tokens * float(scaled[i].square().mean().sqrt()) / SCALE for i in range(len(row["grad_write_rms"]))
    ]
    np.testing.assert_allclose(row["grad_write_rms"], by_hand, rtol=2e-4)
    assert any(gradient.ne(0).any() for gradient in scaled.values())
    np.testing.assert_allclose(row["param_grad_norm"], fp32["param_grad_norm"], rtol=0.02)
    assert not np.allclose(row["grad_write_rms"], fp32["grad_write_rms"], rtol=1e-5)


def test_a_step_skipped_for_inf_is_kept_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)

    def good() -> Tensor:
        return loss_of(model, inputs, targets)

    losses = [good, lambda: good() * float("inf"), good]
    scaled_steps(model, without_updates(model), tmp_path / "run", losses)
    assert [float(rows["fast"][step]["skipped"]) for step in range(3)] == [0, 1, 0]
    assert [float(rows["fast"][step]["loss_scale"]) for step in range(3)] == [SCALE, SCALE, SCALE / 2]
    same(rows["fast"][1], expected, *FORWARD)
    assert not np.isfinite(rows["fast"][1].get("param_grad_norm", np.nan)).any()
    same(rows["fast"][2], expected, *GRADIENTS, *PARAMETERS)


def test_a_fused_optimizer_leaves_gradients_scaled_and_skips_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    met: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: met.append(float(model.head.weight.grad.norm())))

    def good() -> Tensor:
        return loss_of(model, inputs, targets)

    scaled_steps(model, optimizer, tmp_path / "run", [good, lambda: good() * float("inf"), good])
    same(rows["fast"][0], expected, *GRADIENTS, *PARAMETERS)
    assert met[0] == pytest.approx(SCALE * float(rows["fast"][0]["head_grad_norm"]), rel=1e-5)
    assert [float(rows["fast"][step]["skipped"]) for step in range(3)] == [0, 1, 0]
    same(rows["fast"][2], expected, *GRADIENTS, *PARAMETERS)


def test_a_fused_optimizer_beside_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scaler unscales the gradients of the one before its step, and leaves those of the other to it."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() != 2]
    optimizers = [
        torch.optim.AdamW(matrices, lr=0.0, fused=True),
        torch.optim.SGD(others, lr=0.0),
    ]
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    with Recorder(model, tmp_path / "run", optimizer=optimizers, scaler=scaler) as recorder:
        loss = loss_of(model, inputs, targets)
        scaler.scale(loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        recorder.step(loss=loss.detach())
    same(rows["fast"][0], expected, *GRADIENTS, *PARAMETERS)
