"""Training steps as people have them, for ``depthscope doctor --verify tests.testing.setups:NAME``."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.recording.loops import batches, build, loss_of, optimizer_of, train


def trained(design: str) -> nn.Module:
    model = build(design)
    train(model, 5, batches(), optimizer_of(model))
    model.zero_grad()
    return model


def step_on(inputs: Tensor, targets: Tensor) -> Any:
    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
        optimizer.zero_grad()

    return step


def plain() -> Any:
    model = trained("foreign")
    return model, optimizer_of(model), step_on(*batches(3)())


def streams() -> Any:
    model = trained("mhc:n=2")
    return model, optimizer_of(model), step_on(*batches(3)())


def outer() -> Any:
    model = trained("hires:B=2,n=2")
    return model, optimizer_of(model), step_on(*batches(3)())


def heads() -> Any:
    model = trained("block-attnres:S=3,heads=4")
    return model, optimizer_of(model), step_on(*batches(3)())


def dropping() -> Any:
    model: Any = trained("foreign")
    for stage in model.tower:
        stage.beta.append(nn.Dropout(0.3))
    return {"model": model, "optimizer": optimizer_of(model), "step": step_on(*batches(3)())}


def everything() -> Any:
    """Compiled, fp16 with a scaler that is not mentioned, two micro-batches, clipped, two optimizers."""
    model = trained("block-attnres:S=3")
    inputs, targets = batches(3)()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    parameters = list(model.parameters())
    optimizers = [torch.optim.AdamW(parameters[::2], lr=1e-3), torch.optim.AdamW(parameters[1::2], lr=1e-3)]

    def step(model: Any, optimizers: Any, recorder: Any) -> None:
        total = torch.zeros(())
        for x, y in zip(inputs.split([1, 2]), targets.split([1, 2]), strict=True):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_of(model, x, y) * len(x) / len(inputs)
            scaler.scale(loss).backward()
            total += loss.detach()
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(parameters_of(model), 0.1)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        recorder.step(loss=total, grad_norm=norm, max_norm=0.1)

    return torch.compile(model, backend="aot_eager"), optimizers, step


def parameters_of(model: nn.Module) -> list[nn.Parameter]:
    return list(model.parameters())


def compiled_too_early() -> Any:
    model = trained("prenorm")
    model.compile(backend="aot_eager")
    loss_of(model, *batches(3)()).backward()
    model.zero_grad()
    return model, optimizer_of(model), step_on(*batches(3)())


def another_batch() -> Any:
    model = trained("prenorm")
    draw = batches(3)

    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        step_on(*draw())(model, optimizer, recorder)

    return model, optimizer_of(model), step


def own_part() -> tuple[Tensor, Tensor]:
    inputs, targets = batches(20 + dist.get_rank())()
    return inputs, targets


def ddp() -> Any:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(trained("foreign"))
    inputs, targets = own_part()

    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        with model.no_sync():
            (loss_of(model, inputs[:2], targets[:2]) * 2 / 3).backward()
        (loss_of(model, inputs[2:], targets[2:]) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
        recorder.step()
        optimizer.zero_grad()

    return model, optimizer_of(model), step


def fsdp() -> Any:
    dist.init_process_group("gloo")
    model: Any = trained("block-attnres:S=3")
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return {
        "model": model,
        "optimizer": optimizer_of(model),
        "step": step_on(*own_part()),
        "reference": build("block-attnres:S=3", seed=9),
    }


def sharded_without_reference() -> Any:
    made = fsdp()
    del made["reference"]
    return made


# --- what is no setup -----------------------------------------------------------------------------------


def two_values() -> Any:
    return plain()[:2]


def no_model() -> Any:
    return ("model", *plain()[1:])


def no_optimizer() -> Any:
    model, _, step = plain()
    return model, "adam", step


def no_function() -> Any:
    return (*plain()[:2], 3)


def misspelt() -> Any:
    model, optimizer, step = plain()
    return {"model": model, "optimizer": optimizer, "step": step, "scalar": None}


def number() -> Any:
    return 7


def raises() -> Any:
    raise RuntimeError("no weights at hand")


def raising_step() -> Any:
    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        raise RuntimeError("the batch is gone")

    return (*plain()[:2], step)


def never_ended() -> Any:
    inputs, targets = batches(3)()

    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        loss_of(model, inputs, targets).backward()
        optimizer.step()

    return (*plain()[:2], step)


def two_steps() -> Any:
    model, optimizer, once = plain()

    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        once(model, optimizer, recorder)
        once(model, optimizer, recorder)

    return model, optimizer, step


def without_the_optimizer() -> Any:
    inputs, targets = batches(3)()

    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        loss_of(model, inputs, targets).backward()
        recorder.step()

    return (*plain()[:2], step)


def without_depth() -> Any:
    model = nn.Sequential(nn.Linear(4, 4))

    def step(model: Any, optimizer: Any, recorder: Any) -> None:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        recorder.step()

    return model, optimizer_of(model), step


constant = 3
