"""Fault 5: the model changes a tensor in place after a hook has seen it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from depthscope.recording import Recorder
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording import reference
from tests.recording.loops import ForeignGPT, Stage, build
from tests.recording.rows import spy_on_rows, trained

pytestmark = pytest.mark.parametrize("compiled", [False, True])


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def called(model: Any, compiled: bool) -> Any:
    return torch.compile(model, fullgraph=True, backend="eager") if compiled else model


class IntoTheWrite(Stage):
    """Adds the stream to the write, as Falcon does."""

    def forward(self, x: Tensor) -> Tensor:
        f = self.alpha(self.u(x))
        f += x
        g = self.beta(self.w(f))
        g += f
        return g


class IntoTheStream(Stage):
    """Adds the write to the stream, which its norms have copied before."""

    def forward(self, x: Tensor) -> Tensor:
        x.add_(self.alpha(self.u(x.clone())))
        return x.add_(self.beta(self.w(x.clone())))


@pytest.mark.parametrize("kind", [IntoTheWrite, IntoTheStream])
def test_writes_and_reads_are_recorded_as_they_passed(
    kind: type[Stage], compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(ForeignGPT(stages=2))
    model = ForeignGPT(stages=2)
    model.load_state_dict(plain.state_dict())
    for stage in model.tower:
        stage.__class__ = kind
    expected, optimizer = truth(plain, inputs, targets), without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        for _ in range(2):
            one_step(called(model, compiled), optimizer, recorder, inputs, targets)
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)


def test_a_write_that_becomes_the_partial_sum_in_place(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixer's next read comes after it; by then the write holds the whole sum, and its share is not known."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("block-attnres:S=3"))
    expected = truth(model, inputs, targets)
    seen = reference.capture(model, inputs, targets)
    fresh = reference.fresh_share(seen, reference.depth_weights(model, seen), set())
    model.zero_grad()
    residual: Any = model.residual

    def write(state: tuple[Tensor, ...], layer: int, output: Tensor) -> tuple[Tensor, ...]:
        if residual.blocks.starts(layer):
            return (*state, output)
        return (*state[:-1], output.add_(state[-1]))

    residual.write = write
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(called(model, compiled), optimizer, recorder, inputs, targets)
    same(rows["fast"][0], expected, *ALL)
    found = rows["fast"][0]["fresh_share"]
    known = ~np.isnan(found)
    assert known[[0, 3, 6]].all()  # the first write of a block is its partial sum
    assert known.all() == compiled
    np.testing.assert_allclose(found[known], fresh[known], rtol=1e-5, atol=1e-6)
