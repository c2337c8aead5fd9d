"""Fault 8: nested (jagged) tensors, which hold sequences of different lengths without padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.marks import DepthAxis, Port, Sublayer
from depthscope.probes import Activation
from depthscope.recording import Recorder
from tests.faults.truth import without_updates
from tests.recording import reference
from tests.recording.loops import VOCABULARY, WIDTH
from tests.recording.rows import spy_on_rows

LENGTHS = (3, 1, 7)
LAYERS = 3


class Tower(nn.Module):
    """Pre-norm MLPs over whatever the embedding gives."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.out = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids)
        for norm, linear in zip(self.norms, self.maps, strict=True):
            x = x + linear(norm(x))
        return self.out(self.last(x))

    def describe_depth(self) -> DepthAxis:
        reads = [Port(module=f"norms.{layer}", side="input") for layer in range(LAYERS)]
        reads.append(Port(module="last", side="input"))
        return DepthAxis(
            design="nested",
            embedding=Port(module="letters", side="output"),
            final_read=reads[-1],
            sublayers=tuple(
                Sublayer(
                    index=layer + 1,
                    name=f"{layer + 1}",
                    kind="mlp",
                    transformer_block=layer + 1,
                    residual_block=0,
                    read=reads[layer],
                    write=Port(module=f"maps.{layer}", side="output"),
                    state=reads[layer + 1],
                    additive=True,
                    fresh="state",
                    parameters=(f"norms.{layer}", f"maps.{layer}"),
                )
                for layer in range(LAYERS)
            ),
        )


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.norm(x))


class Foreign(nn.Module):
    """The same in blocks, and does not describe itself."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.out = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.tower = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids)
        for block in self.tower:
            x = block(x)
        return self.out(self.last(x))

    @property
    def norms(self) -> list[nn.Module]:
        return [block.norm for block in self.tower]

    @property
    def maps(self) -> list[nn.Module]:
        return [block.linear for block in self.tower]


def by_hand(model: Any, ids: Tensor, targets: Tensor) -> dict[str, np.ndarray]:
    """The same tokens, one after the other in one sequence."""
    seen = reference.Captured()
    x = seen.keep(model.letters(ids[None]))
    for norm, linear in zip(model.norms, model.maps, strict=True):
        seen.reads.append(x)
        seen.writes.append(seen.keep(linear(norm(x))))
        x = seen.keep(x + seen.writes[-1])
        seen.states.append(x)
    logits = model.out(model.last(x))
    nn.functional.cross_entropy(logits[0], targets).backward()
    return reference.over_layers(seen)


def nested(parts: list[Tensor]) -> Tensor:
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


@pytest.mark.parametrize(("kind", "compiled"), [(Tower, False), (Tower, True), (Foreign, False)])
def test_every_token_of_every_length_counts_once(
    kind: type[nn.Module], compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    rows, model = spy_on_rows(monkeypatch), kind()
    parts = [torch.randint(0, VOCABULARY, (length,)) for length in LENGTHS]
    targets = torch.randint(0, VOCABULARY, (sum(LENGTHS),))
    expected = by_hand(model, torch.cat(parts), targets)
    model.zero_grad()
    optimizer = without_updates(model)
    called = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        loss = nn.functional.cross_entropy(called(nested(parts)).values(), targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss)
    row = rows["fast"][0]
    assert row["loss_tokens"] == sum(LENGTHS)
    for name in set(expected) - {"grad_state_rms"}:
        np.testing.assert_allclose(row[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype:UserWarning")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_tokens_are_those_between_the_ends_of_each_sequence(layout: torch.layout) -> None:
    """Also where a jagged tensor leaves holes in its memory."""
    whole = [torch.randn(length, WIDTH) for length in LENGTHS]
    if layout is torch.jagged:
        dense = nn.utils.rnn.pad_sequence(whole, batch_first=True)
        tensor = torch.nested.narrow(
            dense, 1, torch.zeros(3, dtype=torch.int64), torch.tensor(LENGTHS), layout=layout
        )
    else:
        tensor = torch.nested.nested_tensor(whole, layout=layout)
    seen = Activation(tensor)
    assert (seen.tokens, seen.width) == (sum(LENGTHS), WIDTH)
    torch.testing.assert_close(seen.norm, torch.cat(whole).norm(dim=1))
