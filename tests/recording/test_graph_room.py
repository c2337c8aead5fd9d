"""Blocks that are compiled one by one share their code: what recording adds must not use up torch's limit of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from depthscope.recording import Recorder, graph_room
from tests.recording.loops import ForeignGPT, batches, loss_of, optimizer_of

# Of torch itself, for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)
LIMIT = 8
"""Torch's own."""


@pytest.fixture(autouse=True)
def torch_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch._dynamo.reset()
    monkeypatch.setattr(graph_room, "_set", None)
    with torch._dynamo.config.patch(recompile_limit=LIMIT):
        yield
    torch._dynamo.reset()


def blocks_over_shapes(path: Path | None) -> list[float]:
    """Train compiled blocks; every third batch is shorter, as the last of an epoch, and an evaluation follows it."""
    torch.manual_seed(0)
    model, draw = ForeignGPT(stages=3), batches()
    optimizer = optimizer_of(model)
    recorder = None if path is None else Recorder(model, path, optimizer=optimizer, every=2)
    for stage in model.tower:
        stage.compile(fullgraph=True, backend="aot_eager")
    losses = []
    for step in range(9):
        inputs, targets = draw()
        if step % 3 == 2:
            inputs, targets = inputs[:2], targets[:2]
        loss = loss_of(model, inputs, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if recorder is not None:
            recorder.step(loss=loss)
        if step % 3 == 2:
            model.eval()
            with torch.no_grad():
                model(inputs[:1])
            model.train()
    if recorder is not None:
        recorder.close()
    return losses


def test_compiled_blocks_of_changing_shapes_stay_compiled_and_bitwise_the_same(tmp_path: Path) -> None:
    """Past the limit a block with ``fullgraph=True`` raises, and one without runs eagerly."""
    plain = blocks_over_shapes(None)
    torch._dynamo.reset()
    assert blocks_over_shapes(tmp_path / "run") == plain
    assert torch._dynamo.config.recompile_limit == 6 * LIMIT


def test_room_is_made_once_and_from_the_limit_of_the_loop(tmp_path: Path) -> None:
    def limit_after(name: str) -> int:
        with Recorder(ForeignGPT(stages=1), tmp_path / name, example=batches()()[0]):
            return int(torch._dynamo.config.recompile_limit)

    assert limit_after("one") == limit_after("two") == 6 * LIMIT
    torch._dynamo.config.recompile_limit = 20
    assert limit_after("three") == 120
