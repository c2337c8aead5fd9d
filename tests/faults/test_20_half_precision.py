"""Fault 20: half precision is reduced in fp32: a norm past 65,504 is a number, and sums do not round to 8 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from depthscope.recording import Recorder
from tests.recording import reference
from tests.recording.loops import VOCABULARY, ForeignGPT, batches, build, loss_of
from tests.recording.rows import spy_on_rows

LENGTH, ENTRY = 76_796, 3_392.0
WIDTH = 512
"""sqrt(512) * 3392 = 76752.6: the entries are fp16 numbers whose vector's norm is none."""


def wide(dtype: torch.dtype) -> Any:
    """Two stages of width 512 in half precision, with the embedding's entries all +-3392."""
    torch.manual_seed(0)
    model = ForeignGPT(stages=1, width=WIDTH)
    with torch.no_grad():
        signs = torch.randint(0, 2, (VOCABULARY, WIDTH)) * 2.0 - 1
        model.letters.weight.copy_(signs * ENTRY)
        model.places.weight.zero_()
    return model.to(dtype)


def test_the_vector_is_longer_than_fp16_can_say() -> None:
    vector = wide(torch.float16).letters.weight[0].detach()
    assert abs(float(vector.double().norm()) / LENGTH - 1) < 1e-3
    assert float(vector.double().norm()) > torch.finfo(torch.float16).max


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sizes_of_long_vectors(dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model = wide(dtype)
    inputs, targets = batches()()
    with Recorder(model, tmp_path / "run", example=inputs) as recorder:
        loss_of(model, inputs, targets).backward()
        recorder.step()
    row, entry = rows["fast"][0], float(torch.tensor(ENTRY, dtype=dtype))
    np.testing.assert_allclose(row["embedding_rms"], entry, rtol=1e-6)
    np.testing.assert_allclose(row["embedding_logrms"], np.log(entry), rtol=1e-6)
    np.testing.assert_allclose(row["read_rms"][0], entry, rtol=1e-6)
    assert np.isfinite(row["state_rms"]).all()
    assert row["nonfinite"].tolist() == [0, 0]


def test_parameter_gradients_longer_than_fp16_can_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model = wide(torch.float16)
    inputs, targets = batches()()
    with Recorder(model, tmp_path / "run", example=inputs) as recorder:
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            parameter.grad = 200 * torch.randn_like(parameter)
        recorder.step()
    by_hand = [float(parameter.grad.double().norm()) for parameter in model.parameters()]
    assert max(by_hand) > torch.finfo(torch.float16).max
    np.testing.assert_allclose(rows["fast"][0]["grad_norm"], np.linalg.norm(by_hand), rtol=1e-5)


def test_a_large_matrix_is_not_added_up_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch alone adds up 786,432 equal fp32 squares to 5e-4 too little on a CPU."""
    rows = spy_on_rows(monkeypatch)
    model = wide(torch.float32)
    inputs, targets = batches()()
    with Recorder(model, tmp_path / "run", example=inputs) as recorder:
        loss_of(model, inputs, targets).backward()
        model.zero_grad()
        model.tower[0].alpha.zig.weight.grad = torch.full((3 * WIDTH, WIDTH), 0.1)
        recorder.step()
    expected = float(torch.tensor(0.1)) * (3 * WIDTH * WIDTH) ** 0.5
    np.testing.assert_allclose(rows["fast"][0]["grad_norm"], expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_autocast_passes_is_summed_in_full(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's own hooks keep the half-precision writes; their fp64 sizes are the truth, to 1e-6."""
    rows = spy_on_rows(monkeypatch)
    model: Any = build("foreign")
    inputs, targets = batches()()
    kept: dict[int, torch.Tensor] = {}
    for index, part in enumerate(p for stage in model.tower for p in (stage.alpha, stage.beta)):
        part.register_forward_hook(lambda _, args, output, index=index: kept.__setitem__(index, output))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        with torch.autocast("cpu", dtype=dtype):
            loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
    assert all(write.dtype == dtype for write in kept.values())
    expected = [reference.rms(kept[index]) for index in range(len(kept))]
    np.testing.assert_allclose(rows["fast"][0]["write_rms"], expected, rtol=1e-6)
    typical = [reference.logrms(kept[index]) for index in range(len(kept))]
    np.testing.assert_allclose(rows["fast"][0]["write_logrms"], typical, rtol=1e-5)


def test_half_a_bit_is_lost_by_summing_in_bf16() -> None:
    """What the tolerances above would miss otherwise."""
    vector = torch.linspace(1, 2, 4096).bfloat16()
    exact = float(vector.double().square().sum())
    assert abs(float((vector * vector).cumsum(0)[-1]) / exact - 1) > 1e-4
