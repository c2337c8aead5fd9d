"""The function tape: what it freezes, what it leaves linear, and what it refuses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from depthscope.mixing import FunctionTape, MixingError, measure_mixing
from tests.mixing.models import TOKENS
from tests.mixing.test_known_values import described

X = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(2))
GAIN, BIAS = torch.linspace(0.5, 2, 8), torch.linspace(-1, 1, 8)


def scaled_softmax(x):
    return x * torch.softmax(x.sum(-1, keepdim=True), dim=1)


LINEAR_WHEN_FROZEN = {
    "rms_norm": lambda x: F.rms_norm(x, (8,), GAIN, 1e-6),
    "RMSNorm": nn.RMSNorm(8),
    "rms_norm of two axes": lambda x: torch.rms_norm(x, (5, 8)),
    "layer_norm": lambda x: F.layer_norm(x, (8,), GAIN, BIAS),
    "LayerNorm without bias": nn.LayerNorm(8, bias=False),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "softmax gate": scaled_softmax,
    "Sigmoid module": lambda x: x * nn.Sigmoid()(x),
    "power": lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-6) ** -0.5,
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "topk": lambda x: x * x.topk(2, dim=-1).values.sum(-1, keepdim=True),
    "in-place change of a recorded value": lambda x: x * torch.sigmoid(x).mul_(2.0).add_(1.0),
}


@pytest.mark.parametrize("name", LINEAR_WHEN_FROZEN)
def test_a_frozen_function_is_affine_and_gives_what_it_gave(name):
    function = LINEAR_WHEN_FROZEN[name]
    with torch.no_grad():
        real, tape = function(X), FunctionTape()
        with tape:
            recorded = function(X)

        def replay(x):
            with tape:
                return function(x)

        torch.testing.assert_close(recorded, real, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(replay(X), recorded, rtol=0, atol=0)
        nothing, other = replay(torch.zeros_like(X)), torch.randn_like(X)
        torch.testing.assert_close(
            replay(2 * X - 3 * other), 2 * replay(X) - 3 * replay(other) + 2 * nothing, rtol=1e-4, atol=1e-5
        )
    # Unfrozen, none of them is: the test would see it.
    assert not torch.allclose(function(X) + function(other) - function(X * 0), function(X + other), atol=1e-2)


def test_another_path_through_the_code_is_an_error():
    tape = FunctionTape()
    with tape:
        torch.exp(X)
    with pytest.raises(RuntimeError, match="calls tanh where the recorded forward did not"), tape:
        torch.tanh(X)
    with pytest.raises(RuntimeError, match="called 0 of the 1 recorded nonlinear functions"), tape:
        pass


def test_half_a_forward_is_no_record():
    tape = FunctionTape()
    with pytest.raises(RuntimeError, match="must match"), tape:
        torch.exp(X) + torch.ones(7)
    assert not tape.values
    assert not tape.replaying


class _ByHand(torch.autograd.Function):
    """A norm with its own backward, which knows nothing of a scale that is frozen."""

    @staticmethod
    def forward(context, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    @staticmethod
    def backward(context, gradient):
        return gradient


class NormedStream(nn.Module):
    """The stream itself passes a norm before the last read."""

    def __init__(self, norm):
        super().__init__()
        self.embedding, self.first, self.norm = nn.Embedding(31, 8), nn.Linear(8, 8), norm
        self.read_first, self.last = nn.Identity(), nn.Identity()

    def forward(self, tokens):
        stream = self.embedding(tokens)
        return self.last(self.norm(stream + self.first(self.read_first(stream))))

    def describe_depth(self):
        return described(1, final="last")


NOT_FROZEN = {
    "no torch function, as a kernel of somebody's": lambda x: torch.ops.aten.rms_norm(x, [8]),
    "a backward by hand": _ByHand.apply,
    "a product of two that depend on the state": lambda x: x * x.mean(-1, keepdim=True),
}


@pytest.mark.parametrize("norm", NOT_FROZEN.values(), ids=NOT_FROZEN)
def test_what_is_not_frozen_is_refused_and_not_told_wrong(norm):
    torch.manual_seed(0)
    with pytest.raises(MixingError, match=r"do not sum to the read: relative gap \d+.* at output"):
        measure_mixing(NormedStream(norm), TOKENS)


def test_the_same_stream_under_a_known_norm_is_complete():
    torch.manual_seed(0)
    assert float(measure_mixing(NormedStream(nn.RMSNorm(8)), TOKENS)["mixing_gap"].max()) < 1e-6
