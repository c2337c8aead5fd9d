"""Fault 14: torch.compile of the model, in place, of each block, of a loss function that calls the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.utils import counters

from depthscope.recording import Recorder
from tests.faults.compiling import FROM_TORCH_ITSELF, each_block, in_place, whole
from tests.faults.truth import ALL, same, truth, without_updates
from tests.recording.loops import ForeignGPT, loss_of
from tests.recording.rows import spy_on_rows, trained

pytestmark = FROM_TORCH_ITSELF
STAGES = 3
Loss = Callable[[Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def loss_with(way: Callable[[Any], Any]) -> Callable[[Any], Loss]:
    def make(model: Any) -> Loss:
        called = way(model)
        return lambda inputs, targets: loss_of(called, inputs, targets)

    return make


def compiled_loss(model: Any) -> Loss:
    function = torch.compile(loss_of, fullgraph=True, backend="aot_eager")
    return lambda inputs, targets: function(model, inputs, targets)


WAYS = {
    "the model": loss_with(whole),
    "the model in place": loss_with(in_place),
    "each block": loss_with(each_block),
    "the loss function": compiled_loss,
}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_are_right_and_no_graph_breaks(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two micro-batches, which make the row of the whole batch."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(ForeignGPT(STAGES))
    inputs, targets = (torch.cat([part, part.flip(0, 1)]) for part in (inputs, targets))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        loss_function = WAYS[way](model)
        for _ in range(2):
            for half, wanted in zip(inputs.chunk(2), targets.chunk(2), strict=True):
                (loss_function(half, wanted) / 2).backward()
            optimizer.step()
            recorder.step(tokens=inputs.numel())
            optimizer.zero_grad()
    assert sum(counters["graph_break"].values()) == 0
    for step in (0, 1):
        same(rows["fast"][step], expected, *ALL)


class Counting:
    """A backend that counts its graphs, and those among them that hold a part of the model."""

    def __init__(self) -> None:
        self.graphs = self.of_the_model = 0
        self._compile = lookup_backend("aot_eager")

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        self.graphs += 1
        self.of_the_model += "linear" in graph.code
        return self._compile(graph, inputs)


def compile_whole(model: Any, backend: Counting) -> Loss:
    called = torch.compile(model, fullgraph=True, backend=backend)
    return lambda inputs, targets: loss_of(called, inputs, targets)


def compile_blocks(model: Any, backend: Counting) -> Loss:
    for stage in model.tower:
        stage.compile(fullgraph=True, backend=backend)
    return lambda inputs, targets: loss_of(model, inputs, targets)


def compile_loss(model: Any, backend: Counting) -> Loss:
    function = torch.compile(loss_of, fullgraph=True, backend=backend)
    return lambda inputs, targets: function(model, inputs, targets)


@pytest.mark.parametrize(
    ("compiled", "of_the_model", "beside"),
    [
        # Armed, disarmed, evaluation. The root's hooks have graphs of their own: the gate opens, and closes.
        (compile_whole, 3, 2),
        # Everything is in one graph.
        (compile_loss, 3, 0),
        # Armed thrice, since the first and the last block have other neighbours than those between; disarmed and
        # evaluation once. Beside: what is seen where the stream enters the first block, and where it leaves the last.
        (compile_blocks, 5, 2),
    ],
)
def test_two_hundred_toggles_add_no_graph(
    compiled: Callable[[Any, Counting], Loss], of_the_model: int, beside: int, tmp_path: Path
) -> None:
    model, inputs, targets = trained(ForeignGPT(STAGES), steps=1)
    optimizer, backend = without_updates(model), Counting()
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every=2, example=inputs) as recorder:
        loss_function = compiled(model, backend)
        for step in range(200):
            loss = loss_function(inputs, targets)
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach(), tokens=inputs.numel())
            optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                loss_function(inputs, targets)
            model.train()
            if step > 0:
                assert (backend.of_the_model, backend.graphs - backend.of_the_model) == (of_the_model, beside)
    assert sum(counters["graph_break"].values()) == 0
    assert recorder.report().rows == 100


@pytest.mark.parametrize("way", WAYS)
def test_compiled_code_that_ran_before_attaching_is_named_with_the_remedy_which_helps(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(ForeignGPT(STAGES))
    expected, optimizer = truth(model, inputs, targets), without_updates(model)
    loss_function = WAYS[way](model)
    loss_function(inputs, targets).backward()
    optimizer.zero_grad()

    def record(name: str, reset: bool) -> None:
        with Recorder(model, tmp_path / name, optimizer=optimizer, example=inputs) as recorder:
            if reset:
                torch.compiler.reset()
            loss = loss_function(inputs, targets)
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach(), tokens=inputs.numel())
            optimizer.zero_grad()

    with pytest.warns(UserWarning, match=r"seen.*attach\s+first, or\s+call\s+torch\.compiler\.reset\(\)"):
        record("silent", reset=False)
    record("after a reset", reset=True)
    same(rows["fast"][0], expected, *ALL)
