"""Fault 15: CUDA graph capture. No device is needed for what is held here; the capture itself needs one.

A captured graph replays kernels at fixed addresses: nothing in the recorded body may go to the host, and what it writes
into has to stay where it is (that torch is told so: tests/recording/test_device.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.recording import Recorder
from tests.faults.truth import without_updates
from tests.recording.loops import TIME, VOCABULARY, WIDTH, loss_of
from tests.recording.rows import trained

DESIGNS = ("block-attnres:S=2", "hires:B=2,n=2")
TO_THE_HOST = {
    "item",
    "cpu",
    "tolist",
    "numpy",
    "nonzero",
    "_local_scalar_dense",
    "is_nonzero",
    "equal",
    "unique",
}


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def small(design: str) -> nn.Module:
    config = DecoderConfig(vocabulary=VOCABULARY, width=WIDTH, layers=4, heads=2, context=TIME)
    return Decoder(config, residual_from_string(design, config))


class Keeping:
    """A backend that keeps what it compiles: torch's own calls, and the operators of forward and backward."""

    def __init__(self) -> None:
        self.calls: list[GraphModule] = []
        self.operators: list[GraphModule] = []
        self._compile = aot_autograd(fw_compiler=self._keep, bw_compiler=self._keep)

    def __call__(self, graph: GraphModule, inputs: list[Tensor]) -> Any:
        self.calls.append(graph)
        return self._compile(graph, inputs)

    def _keep(self, graph: GraphModule, inputs: list[Tensor]) -> Any:
        self.operators.append(graph)
        return make_boxed_func(graph.forward)

    def names(self) -> set[str]:
        nodes = (node for graph in (*self.calls, *self.operators) for node in graph.graph.nodes)
        targets = (node.target for node in nodes if node.op in ("call_function", "call_method"))
        return {str(getattr(target, "__name__", target)).split(".")[0] for target in targets}

    def copies_to_a_device(self) -> list[Any]:
        nodes = (node for graph in self.operators for node in graph.graph.nodes if node.op == "call_function")
        return [node for node in nodes if "_to_copy" in str(node.target) and "device" in node.kwargs]


def recorded_steps(design: str, backend: Keeping, path: Path, steps: int) -> tuple[Recorder, list[int]]:
    """Record compiled steps; return the addresses of everything that the graphs write into, after each."""
    model, inputs, targets = trained(small(design), steps=1)
    optimizer, addresses = without_updates(model), []
    every = {"fast": 1, "slow": 2}
    with Recorder(model, path, optimizer=optimizer, every=every, example=inputs) as recorder:
        called = torch.compile(model, fullgraph=True, backend=backend)
        for _ in range(steps):
            loss = loss_of(called, inputs, targets)
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach(), tokens=inputs.numel())
            optimizer.zero_grad()
            addresses.append([tensor.data_ptr() for tensor in written_by(recorder)])
    return recorder, addresses


def written_by(recorder: Recorder) -> list[Tensor]:
    session: Any = recorder._session
    held = [tensor for each in session._ledger.accumulators for tensor in (each.sums, each.maxima)]
    return [recorder._arming.gate, recorder._arming.counted, *held]


@pytest.mark.parametrize("design", DESIGNS)
def test_nothing_goes_to_the_host_and_nothing_moves(design: str, tmp_path: Path) -> None:
    backend = Keeping()
    recorder, addresses = recorded_steps(design, backend, tmp_path / "run", steps=3)
    written = backend.names()
    assert "linalg_vector_norm" in written
    assert not TO_THE_HOST & written
    assert backend.copies_to_a_device() == []
    assert all(each == addresses[0] for each in addresses)
    assert recorder.report().rows == 3
