"""Fault 21: gradients are those after clipping, unless told; the norm before it and the coefficient stand beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import GRADIENTS, PARAMETERS, same, truth, without_updates
from tests.recording.loops import build, loss_of
from tests.recording.rows import spy_on_rows, trained

LIMIT = 0.05


@pytest.mark.parametrize("how", ["grad_norm=, max_norm=", "before_clip()", "untold"])
def test_clipping(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    before = float(expected["grad_norm"])
    coefficient = LIMIT / (before + 1e-6)
    assert coefficient < 0.5
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        for _ in range(3):
            loss = loss_of(model, inputs, targets)
            loss.backward()
            if how == "before_clip()":
                recorder.before_clip()
            norm = nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
            optimizer.step()
            told = {"grad_norm": norm, "max_norm": LIMIT} if how.startswith("grad_norm") else {}
            recorder.step(loss=loss.detach(), **told)
            optimizer.zero_grad()
    row = rows["fast"][0]
    clipped = {name: expected[name] * coefficient for name in PARAMETERS}
    same(row, clipped, *PARAMETERS)
    same(row, expected, *GRADIENTS)  # of activations: clipping comes later
    run = open_run(tmp_path / "run")
    if how == "untold":
        for name in ("grad_norm_before_clip", "clip_coefficient"):
            assert "grad_norm_before_clip" not in row
            assert "recorder.before_clip()" in run.missing[name]
        return
    np.testing.assert_allclose(row["grad_norm_before_clip"], before, rtol=1e-5)
    np.testing.assert_allclose(row["clip_coefficient"], coefficient, rtol=1e-4)


def test_a_gradient_within_the_limit_is_not_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        loss_of(model, inputs, targets).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1e3)
        optimizer.step()
        recorder.step(grad_norm=norm, max_norm=1e3)
    assert rows["fast"][0]["clip_coefficient"] == 1


def test_every_array_says_whether_it_is_before_or_after(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("hires:B=2,n=2"))
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        loss_of(model, inputs, targets).backward()
        recorder.before_clip()
        optimizer.step()
        recorder.step()
    run = open_run(tmp_path / "run")
    after = [name for name in run.quantities if name.endswith("grad_norm")]
    assert {"grad_norm", "param_grad_norm", "embedding_grad_norm", "interface_grad_norm"} <= set(after)
    for name in after:
        assert "after clipping" in run[name].attrs["when"], name
    assert "before clipping" in run["grad_norm_before_clip"].attrs["when"]
