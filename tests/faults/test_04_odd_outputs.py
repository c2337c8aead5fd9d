"""Fault 4: outputs that are tuples, lists, dicts, dataclasses or None."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.recording.loops import ForeignGPT
from tests.recording.rows import spy_on_rows, trained

STAGES = 2


@dataclass
class Output:
    weights: Tensor | None
    hidden: Tensor | None


class Named(NamedTuple):
    hidden: Tensor | None
    cache: dict[str, Tensor]


def positions(x: Tensor) -> Tensor:
    """An integer tensor that comes before the one that is wanted."""
    return torch.arange(x.shape[1])


PACKINGS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tuple": (lambda x: (x, None), lambda packed: packed[0]),
    "tuple with None first": (lambda x: (None, positions(x), x), lambda packed: packed[2]),
    "tuple with a gate first": (lambda x: (x[..., :1].sigmoid(), x), lambda packed: packed[1]),
    "list": (lambda x: [x, [x[:, 0]]], lambda packed: packed[0]),
    "dict": (lambda x: {"at": positions(x), "hidden": x}, lambda packed: packed["hidden"]),
    "dataclass": (lambda x: Output(None, x), lambda packed: packed.hidden),
    "named tuple": (lambda x: Named(x, {}), lambda packed: packed.hidden),
}


class Packed(nn.Module):
    """A module whose output is wrapped in something."""

    def __init__(self, inner: nn.Module, pack: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.pack = inner, pack

    def forward(self, x: Tensor) -> Any:
        return self.pack(self.inner(x))


class PackedStage(nn.Module):
    """A stage that gets, passes inside, and gives such outputs."""

    def __init__(self, stage: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        super().__init__()
        self.pack, self.unpack = pack, unpack
        self.u, self.w = stage.u, stage.w
        self.alpha, self.beta = Packed(stage.alpha, pack), Packed(stage.beta, pack)

    def forward(self, packed: Any) -> Any:
        x = self.unpack(packed)
        x = x + self.unpack(self.alpha(self.u(x)))
        return self.pack(x + self.unpack(self.beta(self.w(x))))


class PackedGPT(ForeignGPT):
    def __init__(self, plain: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        super().__init__(stages=0)
        plain = copy.deepcopy(plain)
        self.pack, self.unpack = pack, unpack
        self.letters, self.places, self.last, self.out = plain.letters, plain.places, plain.last, plain.out
        self.tower = nn.ModuleList(PackedStage(stage, pack, unpack) for stage in plain.tower)

    def forward(self, ids: Tensor) -> Tensor:
        packed = self.pack(self.letters(ids) + self.places.weight[: ids.shape[1]])
        for stage in self.tower:
            packed = stage(packed)
        return self.out(self.last(self.unpack(packed)))


@pytest.mark.parametrize(
    ("packing", "compiled"),
    [
        *((packing, False) for packing in PACKINGS),
        *((packing, True) for packing in ("list", "dict", "dataclass")),
    ],
)
def test_the_stream_is_found_in_whatever_wraps_it(
    packing: str, compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch._dynamo.reset()
    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(ForeignGPT(STAGES))
    model = PackedGPT(plain, *PACKINGS[packing])
    expected, optimizer = truth(plain, inputs, targets), without_updates(model)
    called = torch.compile(model, fullgraph=True, backend="eager") if compiled else model
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        one_step(called, optimizer, recorder, inputs, targets)
    same(rows["fast"][0], expected, *ALL)


def test_none_in_place_of_a_write_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third sublayer gives None, and its block takes that for nothing to add."""

    class Sometimes(Packed):
        silent = False

        def forward(self, x: Tensor) -> Any:
            return Output(None, None if self.silent else self.inner(x))

    class Tolerant(PackedStage):
        def forward(self, packed: Any) -> Any:
            x = packed.hidden
            given = self.alpha(self.u(x)).hidden
            x = x if given is None else x + given
            return self.pack(x + self.beta(self.w(x)).hidden)

    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(ForeignGPT(STAGES))
    model = PackedGPT(plain, *PACKINGS["dataclass"])
    sometimes = Sometimes(model.tower[1].alpha.inner, PACKINGS["dataclass"][0])
    model.tower[1].__class__, model.tower[1].alpha = Tolerant, sometimes
    speaks = truth(plain, inputs, targets)
    with torch.no_grad():
        plain.tower[1].alpha.zag.weight.mul_(1e-9)  # so little that the stream stays as it is
        plain.tower[1].alpha.zag.bias.mul_(1e-9)
    silent = truth(plain, inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
        sometimes.silent = True
        one_step(model, optimizer, recorder, inputs, targets)
    same(rows["fast"][0], speaks, *ALL)
    row, others = rows["fast"][1], [layer for layer in range(1, 2 * STAGES + 1) if layer != 3]
    same(row, silent, *ALL[:-2], layers=others)
    for name in ("write_rms", "write_cosine", "read_rms", "grad_write_rms", "param_grad_norm"):
        assert np.isnan(row[name][2]), name
