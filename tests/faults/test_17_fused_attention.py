"""Fault 17: fused attention never makes its weights, so maps over tokens are not promised; the rest is right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording.loops import TIME, build
from tests.recording.rows import spy_on_rows, trained


@pytest.mark.parametrize("design", ["prenorm", "foreign"])
def test_no_array_is_over_pairs_of_tokens_and_what_is_there_is_right(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    expected = truth(model, inputs, targets)
    fused, calls = torch.nn.functional.scaled_dot_product_attention, []

    def counting(*args: torch.Tensor, **options: object) -> torch.Tensor:
        calls.append(1)
        return fused(*args, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counting)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        for _ in range(2):
            one_step(model, optimizer, recorder, inputs, targets)
    assert calls, "the attention is fused"
    same(rows["fast"][1], expected, *ALL)
    run = open_run(tmp_path / "run")
    assert all(run[name].shape.count(TIME) < 2 for name in run.quantities)
    assert "no depth mixer" in run.missing["depth_attention"], "which is over depth, and this model has none"
