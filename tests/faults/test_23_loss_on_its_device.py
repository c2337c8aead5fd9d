"""Fault 23: what a loop hands in as a tensor stays on its device until the flush: training waits for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, same, truth, without_updates
from tests.recording.loops import BATCH, TIME, build, loss_of
from tests.recording.rows import spy_on_rows, trained

WAITS = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal")
"""Operations that make the host wait for a device: ``.item()``, ``float()``, ``if``, an index by a mask."""


class NothingWaits(TorchDispatchMode):
    """Raises where this thread, and no other, would have to wait."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function).split(".")[1]
        by_mask = name == "index" and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in WAITS or by_mask:
            raise AssertionError(f"{function} waits for the device")
        return function(*args, **(kwargs or {}))


def test_the_mode_notices_an_item() -> None:
    for wait in (Tensor.item, float, bool, lambda loss: loss.reshape(1)[loss.reshape(1) > 0]):
        with pytest.raises(AssertionError, match="waits for the device"), NothingWaits():
            wait(torch.ones(()))


@pytest.mark.parametrize("design", ["prenorm", "block-attnres:S=3", "hires:B=2,n=2"])
def test_a_whole_recorded_step_waits_for_nothing(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    expected = truth(model, inputs, targets)
    optimizer = without_updates(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=10**6)
    scaler.scale(torch.ones(()))  # it makes its scale, from a number
    every = {"fast": 1, "slow": 1}
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, scaler=scaler, every=every)
    for _ in range(2):
        with NothingWaits():
            loss = loss_of(model, inputs, targets)
            scaler.scale(loss).backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad /= 64.0
            recorder.before_clip()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1e6)
            optimizer.step()
            recorder.step(loss=loss.detach(), grad_norm=norm, metrics={"doubled": 2 * loss.detach()})
            recorder.evaluation(validation=loss.detach() + 1)
            optimizer.zero_grad()
    recorder.close()
    same(rows["fast"][1], expected, *ALL, "loss")
    run = open_run(tmp_path / "run")
    loss_value = float(expected["loss"])
    np.testing.assert_allclose(run["loss"].values, [loss_value] * 2, rtol=1e-6)
    np.testing.assert_allclose(run["doubled"].values, [2 * loss_value] * 2, rtol=1e-6)
    np.testing.assert_allclose(run["validation"].values, [loss_value + 1] * 2, rtol=1e-6)
    np.testing.assert_allclose(
        run["grad_norm_before_clip"].values, [float(expected["grad_norm"])] * 2, rtol=1e-5
    )


def test_a_fused_optimizer_and_a_mask_wait_for_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.full((), 2.0), torch.zeros(())  # type: ignore[attr-defined]
    mask = torch.ones(BATCH, TIME, dtype=torch.bool)
    mask[0, 4:] = False
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
    for _ in range(2):
        with NothingWaits():
            with recorder.tokens(mask):
                loss = loss_of(model, inputs, targets)
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach())
            optimizer.zero_grad()
    recorder.close()
    assert rows["fast"][1]["loss_tokens"] == BATCH * TIME - (TIME - 4)
    assert rows["fast"][1]["tokens"] == BATCH * TIME - (TIME - 4)


def test_a_loss_that_changes_afterwards_is_kept_as_it_was(tmp_path: Path) -> None:
    """A loop may add into the tensor that it handed in: only the packing may read it."""
    model, inputs, targets = trained(build("prenorm"))
    total = torch.zeros(())
    with Recorder(model, tmp_path / "run") as recorder:
        for value in (1.0, 2.0, 3.0):
            loss_of(model, inputs, targets).backward()
            total.fill_(value)
            recorder.step(loss=total, metrics={"mine": total})
            recorder.evaluation(mine_too=total)
            total.fill_(-1.0)
            model.zero_grad()
    run = open_run(tmp_path / "run")
    assert run["loss"].values.tolist() == [1, 2, 3]
    assert run["mine"].values.tolist() == [1, 2, 3]
    assert run["mine_too"].values.tolist() == [1, 2, 3]
