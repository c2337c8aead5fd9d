"""What comes into the stream beside the first read, and what no origin's part can be told of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from depthscope.mixing import MixingError, measure_mixing

WIDTH, BLOCKS, VOCABULARY = 16, 3, 40
IDS = torch.randint(VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(5))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.attention = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 32, bias=False), nn.GELU(), nn.Linear(32, WIDTH, bias=False)
        )

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Net(nn.Module):
    """Pre-norm without a bias; `between` makes of stream, embedding and ids what block k reads."""

    def __init__(self, between) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.values = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.between = between

    def forward(self, ids):
        x = embedding = self.table(ids)
        for k, block in enumerate(self.blocks):
            x = block(self.between(self, k, x, embedding, ids))
        return self.head(self.norm(x))


def skip(model, k, x, embedding, ids):
    return 0.7 * x + 0.3 * embedding


def picked(model, k, x, embedding, ids):
    return x + 0.5 * model.table.weight[ids] if k == 1 else x


def second_table(model, k, x, embedding, ids):
    return x + model.values(ids) if k == 1 else x


def by_hand(model, scale, added):
    """Return the shares of the final read: `scale` is what block k leaves of earlier parts, `added` what embeddings add."""
    outputs = {}
    names = [f"blocks.{k}.{part}" for k in range(BLOCKS) for part in ("attention", "mlp")]
    handles = [
        model.get_submodule(name).register_forward_hook(
            lambda module, args, output, name=name: outputs.update({name: output.detach().double()})
        )
        for name in names
    ]
    with torch.no_grad():
        model(IDS)
        first = model.table(IDS).double()
    for handle in handles:
        handle.remove()
    parts = [first]
    for k in range(BLOCKS):
        parts = [scale * part for part in parts]
        parts[0] = parts[0] + added(k).double()
        parts += [outputs[f"blocks.{k}.attention"], outputs[f"blocks.{k}.mlp"]]
    h = sum(parts)
    return np.array([float(((part * h).sum(-1) / (h * h).sum(-1)).mean()) for part in parts])


@pytest.mark.parametrize("between", [skip, picked, second_table])
def test_embeddings_that_come_in_again_are_the_embeddings_and_no_constant(between):
    model = Net(between)
    scale, added = {
        skip: (0.7, lambda k: 0.3 * model.table(IDS)),
        picked: (1.0, lambda k: 0.5 * (k == 1) * model.table(IDS)),
        second_table: (1.0, lambda k: (k == 1) * model.values(IDS)),
    }[between]
    with torch.no_grad():
        expected = by_hand(model, scale, added)
    mixing = measure_mixing(model, IDS)
    final = mixing["mixing_contribution"].values[-1]
    np.testing.assert_allclose(final[:-1], expected, atol=1e-6)
    assert abs(final[-1]) < 1e-7, "there is no bias"
    coefficient = mixing["mixing_coefficient"].values[-1, 0]
    known = {skip: 1.0, picked: 1.5}.get(between, np.nan)  # another table is no multiple of the first
    np.testing.assert_allclose(coefficient, known, rtol=1e-5)


@pytest.mark.parametrize(
    "activation", [torch.tanh, F.silu, lambda x: x + F.relu(x), lambda x: torch.exp(x) - 1]
)
def test_an_activation_on_the_stream_has_no_parts_and_is_refused(activation):
    with pytest.raises(MixingError, match="a nonlinear function of the stream has no parts"):
        measure_mixing(Net(lambda model, k, x, embedding, ids: activation(x) if k == 1 else x), IDS)


def test_a_gate_scales_and_is_taken():
    """Of full width, of its own sum, and with a floor: all of them factors."""

    def gated(model, k, x, embedding, ids):
        gate = torch.sigmoid(model.gate(x))
        return (1 - gate) * x + gate * embedding / (1 + gate.mean(-1, keepdim=True)) if k else x

    final = measure_mixing(Net(gated), IDS)["mixing_contribution"].values[-1]
    np.testing.assert_allclose(final.sum(), 1, atol=1e-6)
    assert abs(final[-1]) < 1e-7
