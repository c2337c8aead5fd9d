"""Settling leaves a model, the random states and a training run bitwise as they were."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.anatomy import AnatomyError, inspect_model
from tests.anatomy.foreign_blocks import WIDTH, UnknownNames
from tests.anatomy.foreign_gpt import ForeignGPT, tokens


class Counting(UnknownNames):
    """A block that keeps books: BatchNorm statistics, counters, caches, its own random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.statistics = nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("noise", torch.full((2,), float("nan")), persistent=False)
        self.count, self.seen, self.cache = 0, [1], {"a": 1}

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.noise = torch.rand(2)
        self.count += 1
        self.seen.append(random.random())
        self.cache["b"] = np.random.rand()
        self.last = x
        self.statistics(x.transpose(1, 2))
        return super().forward(x)


def model_in_use() -> ForeignGPT:
    torch.manual_seed(0)
    model = ForeignGPT(Counting).train()
    model.stack[1].eval()
    model.stack[2].u.eval()
    F.cross_entropy(model(tokens()).flatten(0, 1), tokens().flatten()).backward()
    return model


def bits(tensor: Tensor | None) -> Any:
    return None if tensor is None else (tensor.dtype, tensor.detach().numpy().tobytes())


def numpy_state() -> Any:
    _, keys, *rest = np.random.get_state()
    return keys.tobytes(), rest


def everything(model: nn.Module) -> dict[str, Any]:
    modules = dict(model.named_modules())
    own = ("count", "seen", "cache", "last")
    return {
        "parameters": {name: (id(p), bits(p), p._version) for name, p in model.named_parameters()},
        "gradients": {name: (id(p.grad), bits(p.grad)) for name, p in model.named_parameters()},
        "buffers": {name: (id(b), bits(b)) for name, b in model.named_buffers()},
        "training": {path: module.training for path, module in modules.items()},
        "attributes": {
            (path, name): copy.deepcopy(
                getattr(module, name).detach() if name == "last" else getattr(module, name)
            )
            for path, module in modules.items()
            for name in own
            if name != "last" and hasattr(module, name)
        },
        "last": {path: id(getattr(module, "last", None)) for path, module in modules.items()},
        "names": {path: sorted(module.__dict__) for path, module in modules.items()},
        "hooks": {
            path: (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks))
            for path, m in modules.items()
        },
        "random": (bits(torch.get_rng_state()), random.getstate(), numpy_state()),
        "cache": torch.is_autocast_cache_enabled(),
    }


def test_nothing_changes_in_the_model_or_the_random_states():
    model, ids = model_in_use(), tokens()
    before = everything(model)
    anatomy = inspect_model(model, ids)
    after = everything(model)
    assert anatomy.axis is not None
    for part in before:
        assert after[part] == before[part], part


def test_nothing_changes_when_the_forward_raises():
    class Failing(ForeignGPT):
        def forward(self, ids: Tensor) -> Tensor:
            super().forward(ids)
            raise RuntimeError("no")

    model, ids = Failing(Counting), tokens()
    before = everything(model)
    with pytest.raises(AnatomyError, match="raised RuntimeError while its depth axis was looked for: no"):
        inspect_model(model, ids)
    assert everything(model) == before


def test_hooks_of_the_users_own_stay_and_keep_working():
    model, ids = ForeignGPT(UnknownNames), tokens()
    seen: list[str] = []
    handle = model.stack[1].alpha.register_forward_hook(lambda *_: seen.append("alpha"))
    inspect_model(model, ids)
    seen.clear()
    model(ids)
    assert seen == ["alpha"]
    handle.remove()


def train(settle: bool, *, autocast: bool) -> dict[str, bytes]:
    torch.manual_seed(0)
    model = ForeignGPT(UnknownNames).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    anatomy = inspect_model(model)

    def settle_first(module: nn.Module, args: tuple[Tensor]) -> None:
        if module.training:
            assert anatomy.settle(model, args, {}).axis is not None

    for step in range(3):
        ids = tokens()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            if settle and step == 0:
                handle = model.register_forward_pre_hook(settle_first)
            loss = F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())
            if settle and step == 0:
                handle.remove()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: parameter.detach().numpy().tobytes() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("autocast", [False, True])
def test_a_training_run_is_bitwise_the_same_with_a_settling_in_its_first_forward(autocast):
    assert train(True, autocast=autocast) == train(False, autocast=autocast)


def test_settling_within_autocast_keeps_the_gradients_of_the_weights():
    """A cast of a weight made without gradients and cached by autocast would cut the weight off."""
    model, ids = ForeignGPT(UnknownNames).train(), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        inspect_model(model, ids)
        model(ids).float().square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_no_tensor_of_the_settling_needs_a_gradient():
    model, seen = ForeignGPT(UnknownNames).train(), []
    model.stack[0].alpha.register_forward_hook(lambda m, args, output: seen.append(output.requires_grad))
    inspect_model(model, tokens())
    assert seen
    assert not any(seen)


def test_the_models_own_forward_runs_once_and_in_evaluation_mode():
    model, seen = ForeignGPT(UnknownNames).train(), []
    model.register_forward_pre_hook(lambda m, args: seen.append(m.training))
    inspect_model(model, tokens())
    assert seen == [False]
    assert model.training
