"""A recorded step leaves the host alone: nothing is read back, and nothing is made on the host to be sent over.

Without an accelerator at hand the model trains on ``meta``, the device of shapes: it has no values to read, and each
operation tells where its tensors are.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from depthscope.recording import Recorder
from depthscope.recording.handover import Handover
from depthscope.recording.packet import Packet
from depthscope.recording.shards import contribution
from depthscope.recording.values import split
from tests.recording.loops import BATCH, DESIGNS, TIME, build, loss_of


class OnTheHost(TorchDispatchMode):
    """Collects the operations that touch a tensor of the host."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, out)):
            if isinstance(value, Tensor) and value.device.type == "cpu":
                self.seen.append(str(func))
        return out


class Descent(torch.optim.Optimizer):
    """Gradient descent whose rate is a tensor on the device, as compiled optimizers have it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), {"lr": torch.full((), 1e-3, device="meta")})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad * group["lr"])


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Packet, Tensor]]:
    """What would have been copied to the host in the background."""
    found: list[tuple[Packet, Tensor]] = []
    monkeypatch.setattr(Handover, "submit", lambda self, packet, flat: bool(found.append((packet, flat))))
    return found


def ids() -> tuple[Tensor, Tensor]:
    tokens = torch.zeros(BATCH, TIME + 1, dtype=torch.int64, device="meta")
    return tokens[:, :-1], tokens[:, 1:]


@pytest.mark.parametrize(
    ("design", "masked"), [*((design, False) for design in DESIGNS), ("block-attnres:S=3", True)]
)
def test_no_operation_of_a_recorded_step_touches_the_host(
    design: str,
    masked: bool,
    tmp_path: Path,
    submitted: list[tuple[Packet, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        torch, "autocast", lambda *_, **__: nullcontext()
    )  # which meta lacks, and mixers ask for
    model = build(design).to("meta")
    optimizer = Descent(model)
    with (
        Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder,
        OnTheHost() as host,
    ):
        for _ in range(3):
            mask = torch.ones(BATCH, TIME, dtype=torch.bool, device="meta")
            with recorder.tokens(mask) if masked else nullcontext():
                loss = loss_of(model, *ids())
            loss.backward()
            recorder.before_clip()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            optimizer.step()
            recorder.step(loss=loss.detach(), grad_norm=norm, max_norm=1.0, metrics={"mine": loss.detach()})
            optimizer.zero_grad()
            recorder.evaluation(validation=loss.detach())
    assert host.seen == []
    rows = [(packet, flat) for packet, flat in submitted if "fast" in packet.stream_rows]
    assert len(rows) == 3
    assert {flat.device.type for _, flat in submitted} == {"meta"}
    packet, flat = rows[-1]
    assert {"loss", "grad_norm_before_clip", "learning_rate"} <= set(packet.device_scalars)
    numbers = sum(max(1, size) for visit in packet.visits for _, size in visit.moments)
    assert flat.numel() == numbers + len(packet.device_scalars)


def test_shares_of_a_norm_are_weighed_without_a_tensor_of_the_host() -> None:
    gradients = {
        "whole": torch.full((4,), 3.0, device="meta"),
        "shared": torch.full((4,), 4.0, device="meta"),
    }
    with OnTheHost() as host:
        contribution(gradients, {"whole": 1, "shared": 4})
    assert host.seen == []
    gradients = {"whole": torch.full((4,), 3.0), "shared": torch.full((4,), 4.0)}
    # 4 * 3^2 + 4 * 4^2 / 4, since four ranks bring the second.
    assert contribution(gradients, {"whole": 1, "shared": 4}).square().item() == pytest.approx(52)


def test_numbers_of_the_host_are_told_from_those_on_a_device() -> None:
    loss, rate = torch.zeros((), device="meta"), torch.tensor(0.5)
    given = {"loss": loss, "rate": rate, "tokens": 3}
    assert split(given, loss.device) == ({"loss": loss}, {"rate": 0.5, "tokens": 3.0})


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_that_moves_after_the_recorder_was_attached_is_followed(
    compiled: bool, tmp_path: Path, submitted: list[tuple[Packet, Tensor]]
) -> None:
    torch._dynamo.reset()
    model = build("prenorm")
    recorder = Recorder(model, tmp_path / "run")
    model.to("meta")
    called = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            loss_of(called, *ids()).backward()
            recorder.step()
            model.zero_grad()
        recorder.close()
    assert any("moved to another device" in str(each.message) for each in said)
    (_, first), (packet, second) = submitted
    assert second.device.type == "meta"
    if compiled:  # whose first forward found nowhere to add up
        assert packet.traced
        assert second.numel() > first.numel()


def test_everything_that_compiled_code_adds_into_keeps_its_address(
    tmp_path: Path, submitted: list[tuple[Packet, Tensor]]
) -> None:
    """Or inductor would make no CUDA graph, or copy it in at each call."""
    torch._dynamo.reset()
    graphs: list[tuple[set[int], set[int]]] = []

    def look(graph: Any, inputs: Any, static_input_idxs: Any = (), **_: Any) -> Any:
        places = {node: place for place, node in enumerate(graph.graph.find_nodes(op="placeholder"))}
        written = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        graphs.append(({places[node.args[0]] for node in written}, set(static_input_idxs)))
        return graph.forward

    model = build("block-attnres:S=3")
    with Recorder(model, tmp_path / "run", every={"fast": 1, "slow": 1}) as recorder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # inductor's own, on import
            from torch._inductor.compile_fx import compile_fx

            called = torch.compile(model, fullgraph=True, backend=partial(compile_fx, inner_compile=look))
            tokens = torch.zeros(BATCH, TIME + 1, dtype=torch.int64)
            loss_of(called, tokens[:, :-1], tokens[:, 1:]).backward()
        assert recorder._session is not None
        accumulators = [each for each in recorder._session._ledger.accumulators if each.sums.any()]
        recorder.step()
    tensors = sum(1 + bool(each.maxima.numel()) for each in accumulators)
    written = sum(len(places) for places, _ in graphs)
    assert written > tensors > 0, "the gate and the counts beside all that was filled"
    for places, static in graphs:
        assert places <= static
