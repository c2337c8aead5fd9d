"""How much the device has to do for a sublayer, and how near the fused reduction comes to copying its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.device.setting import Line, Setting, at_least, loss_of, needs_cuda
from depthscope.probes import Activation, FreshShare, Magnitude, Probe, Site, SiteKind
from depthscope.recording import Recorder
from depthscope.recording.accumulator import Accumulator

SECTION = "kernels"
LAYERS = 8
TOKENS, WIDTH = 8 * 2048, 2048
SHARE_OF_COPY = 0.8


def kernels(setting: Setting) -> Iterator[Line]:
    torch._dynamo.reset()
    operations = _added(setting, "eager", _operations)
    yield Line(section=SECTION, what="operations a sublayer, eager, gradients included", value=operations)
    if setting.rehearsal:
        yield needs_cuda(SECTION, "kernels a sublayer, eager and compiled")
        yield needs_cuda(SECTION, "bandwidth of the fused reductions against that of a copy")
        return
    for way in ("eager", "compiled"):
        value = _added(setting, way, _kernels)
        yield Line(section=SECTION, what=f"kernels a sublayer, {way}, gradients included", value=value)
    yield from bandwidth(setting)


def _added(setting: Setting, way: str, count: Callable[[Callable[[], None]], int]) -> float:
    """Return what recording a step adds to it, by sublayer."""
    plain, recorded = (_counted(setting, way, count, record) for record in (False, True))
    return (recorded - plain) / LAYERS


def _counted(setting: Setting, way: str, count: Callable[[Callable[[], None]], int], record: bool) -> int:
    torch._dynamo.reset()
    model = setting.decoder("prenorm", width=64, layers=LAYERS, heads=4, context=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with ExitStack() as stack:
        recorder = None
        if record:
            path = setting.folder / f"kernels-{way}-{count.__name__}"
            recorder = stack.enter_context(Recorder(model, path, optimizer=optimizer))
        called = model if way == "eager" else setting.compile(model)
        inputs, targets = setting.tokens(2, 32)

        def step() -> None:
            loss_of(called, inputs, targets).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if recorder is not None:
                recorder.step(tokens=inputs.numel())
            optimizer.zero_grad()

        for _ in range(3):
            step()
        return count(step)


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def _operations(step: Callable[[], None]) -> int:
    counting = _Counting()  # type: ignore[no-untyped-call]
    with counting:
        step()
    return counting.count


def _kernels(step: Callable[[], None]) -> int:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        step()
        torch.cuda.synchronize()
    return sum(event.device_type == DeviceType.CUDA for event in profiled.events())


def bandwidth(setting: Setting, tokens: int = TOKENS, width: int = WIDTH) -> Iterator[Line]:
    """Time the compiled reductions of a write with its read, of a state and of a gradient."""
    device = setting.device
    one, two = (torch.randn(tokens, width, device=device, dtype=torch.bfloat16) for _ in range(2))
    copy = _rate(setting, lambda: two.copy_(one), 2 * _bytes(one))
    yield Line(section=SECTION, what="copy", value=copy / 1e9, unit="GB/s")
    for what, reduce, read in reductions(one, two):
        compiled = torch.compile(reduce, fullgraph=True)
        rate = _rate(setting, compiled, sum(map(_bytes, read)))
        yield at_least(
            SECTION,
            f"reduction of {what}, as a share of a copy",
            rate / copy,
            SHARE_OF_COPY,
            note=f"{rate / 1e9:.0f} GB/s",
        )


def reductions(one: Tensor, two: Tensor) -> Iterator[tuple[str, Callable[[], None], tuple[Tensor, ...]]]:
    """Yield what is reduced at the sites of a sublayer, as code that is compiled does it, and what it reads."""
    gate = torch.ones((), device=one.device)

    def filled(kind: SiteKind, *names: str) -> Accumulator:
        example = {name: Activation(torch.ones(1, 1)) for name in names}
        looking: tuple[Probe, ...] = (Magnitude(), FreshShare())
        probes = [(index, probe) for index, probe in enumerate(looking) if kind in probe.sites]
        return Accumulator(Site(kind=kind, position=0, fresh=True), probes, example, one.device)

    write, state = filled("write", "write", "read"), filled("state", "state")

    def see_write() -> None:
        seen = {"write": Activation(one), "read": Activation(two)}
        write.add(seen, seen["write"], gate)

    def see_state() -> None:
        seen = Activation(one)
        state.add({"state": seen}, seen, gate)

    yield "a write and its read", see_write, (one, two)
    yield "a state", see_state, (one,)


def _rate(setting: Setting, run: Callable[[], object], size: int, times: int = 50) -> float:
    """Return bytes a second."""
    for _ in range(3):
        run()

    def repeat() -> None:
        for _ in range(times):
            run()

    return size * times / setting.seconds(repeat)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
