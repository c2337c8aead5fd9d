"""Fault 22: NaN and inf are stored as they are and counted, never dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import BATCH, LAYERS, TIME, build, loss_of
from tests.recording.rows import record_one, spy_on_rows, trained


def test_nan_is_stored_as_nan_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    with torch.no_grad():
        model.layers[4].sublayer.out.weight[0, 0] = float("nan")
    record_one(model, inputs, targets, tmp_path / "run")
    row = rows["fast"][0]
    assert row["nonfinite"].tolist() == [0, 0, 0, 0, *[BATCH * TIME] * (LAYERS - 4)]
    assert np.isnan(row["state_rms"][4:]).all()
    assert np.isfinite(row["state_rms"][:4]).all()
    assert np.isnan(row["abs_max"][4:]).all()
    assert np.isnan(row["grad_norm"])


@pytest.mark.parametrize("compiled", [False, True])
def test_inf_at_one_token_is_inf_in_the_store_and_counts_as_one(compiled: bool, tmp_path: Path) -> None:
    """The last write is infinite at the last token of the second sequence."""

    class Explodes(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            one = torch.zeros(BATCH, TIME, 1)
            one[1, -1] = torch.inf if self.training else 0.0
            return self.inner(x) + one

    torch._dynamo.reset()
    model: Any
    model, inputs, targets = trained(build("prenorm"))
    model.layers[-1].sublayer = Explodes(model.layers[-1].sublayer)
    record_one(model, inputs, targets, tmp_path / "run", compiled=compiled)
    run = open_run(tmp_path / "run")
    assert run["nonfinite"].values[0].tolist() == [0] * (LAYERS - 1) + [1]
    assert np.isposinf(run["abs_max"].values[0, -1])
    assert np.isposinf(run["write_rms"].values[0, -1])
    assert np.isfinite(run["state_rms"].values[0, :-1]).all()


def test_the_largest_of_two_micro_batches_keeps_a_nan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's max(0.0, nan) is 0.0: the maximum over micro-batches must not be."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    bad = model.layers[4].sublayer.out.weight
    for place in range(2):
        with Recorder(model, tmp_path / str(place)) as recorder:
            for micro in range(2):
                kept = bad.detach().clone()
                if micro == place:
                    with torch.no_grad():
                        bad[0, 0] = float("nan")
                loss_of(model, inputs, targets).backward()
                bad.data.copy_(kept)
            recorder.step(loss=torch.tensor(float("nan")), metrics={"mine": float("inf")})
            model.zero_grad()
        row = rows["fast"][0]
        assert np.isnan(row["abs_max"][4:]).all()
        assert np.isfinite(row["abs_max"][:4]).all()
        assert row["nonfinite"][5] == BATCH * TIME
        run = open_run(tmp_path / str(place))
        assert np.isnan(run["loss"].values).all()
        assert run["mine"].values.tolist() == [np.inf]
