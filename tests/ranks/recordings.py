"""Scenarios that record a step of a wrapped model, each rank on its own part of the batch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from depthscope.recording import Recorder, Schedule
from depthscope.recording.probe_batch import ProbeBatch
from tests.ranks.models import batch_of, mask_of, micro_batch_of, padded, skip, trained
from tests.recording.loops import loss_of

EVERY = {"fast": 1, "slow": 1}


def wrapped(model: nn.Module, how: str, **options: Any) -> nn.Module:
    """Return the model as data parallelism takes it; ``hsdp`` is two replicas of two shards."""
    if how == "ddp":
        return DistributedDataParallel(model, **options)
    if how == "hsdp":
        options["mesh"] = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for block in getattr(model, "tower", None) or model.layers:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def still(model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that steps and leaves the weights."""
    return torch.optim.AdamW(model.parameters(), lr=0.0)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, recorder: Recorder | None, place: int) -> float:
    loss = loss_of(model, *batch_of(place))
    loss.backward()
    optimizer.step()
    if recorder is not None:
        recorder.step(loss=loss.detach())
    optimizer.zero_grad()
    return loss.item()


def one_step(design: str, how: str, path: Path, **options: Any) -> dict[str, Any]:
    model = wrapped(trained(design), how, **options)
    optimizer = still(model)
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder:
        step(model, optimizer, recorder, dist.get_rank())
    report = recorder.report()
    return {"report": str(report), "accepted": recorder.accepted_step, "missing": report.missing}


def streams(design: str, how: str, path: Path) -> dict[str, Any]:
    return one_step(design, how, path)


def inner(design: str, how: str, path: Path) -> dict[str, Any]:
    """The recorder gets the module inside DDP, which is not what the loop calls, and no rank has the same path."""
    model = trained(design)
    outer = wrapped(model, how)
    optimizer = still(outer)
    rank = dist.get_rank()
    example = batch_of(rank)[0]
    with Recorder(model, f"{path}{rank}", optimizer=optimizer, every=EVERY, example=example) as recorder:
        step(outer, optimizer, recorder, rank)
    return {"path": recorder.path.name}


def apart(design: str, how: str, path: Path) -> dict[str, Any]:
    """Every rank writes a run of its own too; two rows, and a second recorder goes on with one more."""
    model = wrapped(trained(design), how)
    optimizer = still(model)
    rank = dist.get_rank()
    for first, last in ((0, 2), (2, 3)):
        with Recorder(
            model, path / "run", optimizer=optimizer, every=EVERY, start_step=first, per_rank=True
        ) as recorder:
            for place in range(first, last):
                step(model, optimizer, recorder, 10 * place + rank)
    return {}


def mixed(design: str, how: str, path: Path) -> dict[str, Any]:
    """FSDP2 computing in bf16 and reducing in fp32."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return one_step(design, how, path, mp_policy=policy)


def accumulated(design: str, how: str, path: Path) -> dict[str, Any]:
    """Two micro-batches, the first without communication, clipped; then a step whose norm we are to find."""
    model = wrapped(trained(design), how)
    optimizer = still(model)
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder:
        for micro in range(2):
            last = micro == 1
            if how != "ddp":
                model.set_requires_gradient_sync(last)
            with nullcontext() if last or how != "ddp" else model.no_sync():
                loss = loss_of(model, *micro_batch_of(dist.get_rank(), micro)) / 2
                loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
        recorder.step(loss=2 * loss.detach(), grad_norm=norm, max_norm=0.05)
        optimizer.zero_grad()
        loss_of(model, *batch_of(dist.get_rank())).backward()
        recorder.before_clip()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
        recorder.step()
    return {}


def masked(design: str, how: str, path: Path) -> dict[str, Any]:
    """Each rank leaves other positions out of its first step, and none out of its second."""
    model = wrapped(trained(design), how)
    optimizer = still(model)
    rank = dist.get_rank()
    mask = mask_of(rank)
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder:
        inputs, targets = padded(batch_of(rank), mask)
        with recorder.tokens(mask):
            logits = model(inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
        optimizer.zero_grad()
        step(model, optimizer, recorder, rank)
    return {"report": str(recorder.report())}


def discarded(design: str, how: str, path: Path) -> dict[str, Any]:
    """A batch whose gradients are thrown away belongs to no row."""
    model = wrapped(trained(design), how)
    optimizer = still(model)
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder:
        loss_of(model, *batch_of(90 + dist.get_rank())).backward()
        optimizer.zero_grad()
        step(model, optimizer, recorder, dist.get_rank())
    return {}


def unchanged(design: str, how: str, path: Path) -> dict[str, Any]:
    """Ten steps without and with a recorder."""

    def run(record: bool) -> tuple[list[float], dict[str, Tensor]]:
        model = wrapped(trained(design), how)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        every = {"fast": 1, "slow": 3}
        recording = Recorder(model, path, optimizer=optimizer, every=every) if record else nullcontext()
        with recording as recorder:
            losses = [step(model, optimizer, recorder, dist.get_rank() + 7 * place) for place in range(10)]
        return losses, {name: _held(parameter) for name, parameter in model.named_parameters()}

    losses, parameters = run(record=False)
    recorded_losses, recorded = run(record=True)
    same = all(torch.equal(value, recorded[name]) for name, value in parameters.items())
    return {"losses": losses == recorded_losses, "parameters": same, "steps": len(losses)}


def probed(design: str, how: str, path: Path) -> dict[str, Any]:
    """Four steps without and with a probe batch, which every rank runs."""

    def run(**options: Any) -> tuple[list[float], dict[str, Tensor]]:
        model = wrapped(trained(design), how)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        recording = Recorder(model, path, optimizer=optimizer, **options) if options else nullcontext()
        with recording as recorder:
            losses = [step(model, optimizer, recorder, dist.get_rank() + 7 * place) for place in range(4)]
        return losses, {name: _held(parameter) for name, parameter in model.named_parameters()}

    losses, parameters = run()
    found, recorded = run(probe_batch=batch_of(40)[0], probe_every=2)
    same = all(torch.equal(value, recorded[name]) for name, value in parameters.items())
    return {"losses": losses == found, "parameters": same}


def probed_before_an_update(design: str, how: str, path: Path) -> dict[str, Any]:
    """The batch runs between backward and update, as it does where the loop calls compiled code."""
    model = wrapped(trained(design), how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = parameter.detach().clone()
    inputs = batch_of(40)[0]
    ProbeBatch(model, inputs, Schedule(every=1)).take(0, None)
    optimizer.step()  # every parameter is halved
    halved = trained(design)
    with torch.no_grad():
        for parameter in halved.parameters():
            parameter.mul_(0.5)
        gap = (model(inputs) - halved(inputs)).abs().max()
    return {"gap": float(gap)}


def unused(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 leaves out the third stage."""
    model = wrapped(trained(design), how, find_unused_parameters=True)
    optimizer = still(model)
    with Recorder(model, path, optimizer=optimizer, every=EVERY, example=batch_of(0)[0]) as recorder:
        if dist.get_rank() == 1:
            skip(model.module, 2)
        step(model, optimizer, recorder, dist.get_rank())
    return {}


def _held(parameter: Tensor) -> Tensor:
    return getattr(parameter, "_local_tensor", parameter).detach().clone()
