"""Fault 16: modules that are created or replaced after the recorder was attached are reported, and their numbers left out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, FORWARD, GRADIENTS, one_step, same, truth, truth_of, without_updates
from tests.recording.loops import LAYERS, build
from tests.recording.rows import spy_on_rows, trained

THIRD = 3
"""The layer that changes: the attention of the second block."""
OTHERS = [layer for layer in range(1, LAYERS + 1) if layer != THIRD]


class Adapted(nn.Module):
    """What LoRA does: the module that was there, and a small one beside it."""

    def __init__(self, inner: nn.Module, width: int) -> None:
        super().__init__()
        self.inner, self.down, self.up = inner, nn.Linear(width, 2), nn.Linear(2, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.up(self.down(x))


def replaced(model: Any) -> None:
    model.tower[1].alpha = copy.deepcopy(model.tower[0].alpha)


def adapted(model: Any) -> None:
    model.tower[1].alpha = Adapted(model.tower[1].alpha, 24)


def adapted_inside(model: Any) -> None:
    model.tower[1].alpha.zag = Adapted(model.tower[1].alpha.zag, 24)


def record(
    model: Any, change: Callable[[Any], None], path: Path, batch: Any, *, grows: bool = True
) -> tuple[Recorder, dict[str, np.ndarray]]:
    """Two rows, then the change, then two more; return the truth behind the change."""
    optimizer = without_updates(model)
    recorder = Recorder(model, path, optimizer=optimizer, example=batch[0])
    for _ in range(2):
        one_step(model, optimizer, recorder, *batch)
    recorder._session.handover.wait(60)
    known = {id(parameter) for parameter in model.parameters()}
    change(model)
    changed = truth_of(model, *batch)
    model.zero_grad()
    new = [parameter for parameter in model.parameters() if id(parameter) not in known]
    assert bool(new) == grows
    if new:
        optimizer.add_param_group({"params": new})
    for _ in range(2):
        one_step(model, optimizer, recorder, *batch)
    recorder.close()
    return recorder, changed


@pytest.mark.parametrize("change", [replaced, adapted])
def test_a_sublayer_that_is_replaced_is_named_and_left_out(
    change: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, *batch = trained(build("foreign"))
    before = truth(model, *batch)
    with pytest.warns(UserWarning, match=r"tower\.1\.alpha was replaced after the recorder was attached"):
        recorder, after = record(model, change, tmp_path / "run", batch)
    for step in (0, 1):
        same(rows["fast"][step], before, *ALL)
    for step in (2, 3):
        row = rows["fast"][step]
        for name in (*FORWARD, "grad_write_rms", "param_grad_norm"):
            assert np.isnan(row[name][THIRD - 1]), name
        assert np.isnan(row["grad_norm"])
        same(row, after, *FORWARD, "param_grad_norm", layers=OTHERS)
    assert "was replaced after" in open_run(tmp_path / "run").missing["tower.1.alpha"]
    assert "make another" in str(recorder.report())


def test_an_adapter_inside_a_sublayer_leaves_out_the_norms_that_lack_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, *batch = trained(build("foreign"))
    with pytest.warns(UserWarning, match=r"tower\.1\.alpha\.zag was replaced after"):
        _, after = record(model, adapted_inside, tmp_path / "run", batch)
    row = rows["fast"][3]
    same(row, after, *FORWARD, *GRADIENTS)  # the ports are where they were
    same(row, after, "param_grad_norm", layers=OTHERS)
    assert np.isnan(row["param_grad_norm"][THIRD - 1])
    assert np.isnan(row["grad_norm"])


def test_a_parameter_that_grew_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module stays, and the optimizer gets its new matrices: experts that grow, a longer vocabulary."""

    def grow(model: Any) -> None:
        first, last = model.tower[1].beta[0], model.tower[1].beta[2]
        first.weight = nn.Parameter(torch.cat([first.weight.detach()] * 2))
        first.bias = nn.Parameter(torch.cat([first.bias.detach()] * 2))
        last.weight = nn.Parameter(torch.cat([last.weight.detach()] * 2, dim=1))

    rows = spy_on_rows(monkeypatch)
    model, *batch = trained(build("foreign"))
    with pytest.warns(UserWarning, match=r"tower\.1\.beta\.0\.weight was created after"):
        _, after = record(model, grow, tmp_path / "run", batch)
    row = rows["fast"][3]
    same(row, after, *FORWARD, *GRADIENTS)
    assert np.isnan(row["param_grad_norm"]).tolist() == [layer == 4 for layer in range(1, LAYERS + 1)]
    assert np.isnan(row["grad_norm"])


def test_a_wrapper_without_parameters_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch.compile of a block makes one, behind attaching, where it belongs."""

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

        def __getattr__(self, name: str) -> Any:
            return (
                getattr(super().__getattr__("inner"), name) if name != "inner" else super().__getattr__(name)
            )

    def wrap(model: Any) -> None:
        model.tower[1] = Wrapper(model.tower[1])

    rows = spy_on_rows(monkeypatch)
    model, *batch = trained(build("foreign"))
    before = truth(model, *batch)
    recorder, _ = record(model, wrap, tmp_path / "run", batch, grows=False)
    for step in range(4):
        same(rows["fast"][step], before, *ALL)
    assert "after the recorder was attached" not in str(recorder.report())
