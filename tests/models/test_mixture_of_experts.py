"""Top-k experts in place of the MLP."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from depthscope.models import Decoder, MixtureOfExperts, PreNorm


@pytest.fixture
def mixture():
    torch.manual_seed(0)
    return MixtureOfExperts(6, lambda: torch.nn.Linear(6, 6), experts=5, active=2)


def test_a_token_is_the_weighed_sum_of_its_two_best_experts(mixture):
    x = torch.randn(2, 7, 6)
    expected = torch.empty_like(x)
    for batch in range(2):
        for time in range(7):
            logits = mixture.router.weight @ x[batch, time]
            first, second = logits.argsort(descending=True)[:2].tolist()
            odds = torch.exp(logits[first]), torch.exp(logits[second])
            expected[batch, time] = (
                odds[0] * mixture.experts[first](x[batch, time])
                + odds[1] * mixture.experts[second](x[batch, time])
            ) / sum(odds)
    assert torch.allclose(mixture(x), expected, rtol=1e-5, atol=1e-6)


def test_all_experts_active_is_a_softmax_over_all():
    mixture = MixtureOfExperts(6, lambda: torch.nn.Linear(6, 6), experts=3, active=3)
    x = torch.randn(2, 7, 6)
    shares = torch.softmax(mixture.router(x), -1)
    expected = sum(shares[..., e, None] * expert(x) for e, expert in enumerate(mixture.experts))
    assert torch.allclose(mixture(x), expected, rtol=1e-5, atol=1e-6)


def test_equal_experts_are_one_expert(mixture):
    for expert in mixture.experts[1:]:
        expert.load_state_dict(mixture.experts[0].state_dict())
    x = torch.randn(2, 7, 6)
    assert torch.allclose(mixture(x), mixture.experts[0](x), rtol=1e-5, atol=1e-6)


def test_an_expert_that_no_token_chose_has_a_gradient_of_zero(mixture):
    with torch.no_grad():
        mixture.router.weight.zero_()
        mixture.router.weight[:, 0] = torch.tensor([3.0, 2.0, 1.0, 0.0, -1.0])
    mixture(torch.rand(1, 4, 6) + 0.1).sum().backward()
    assert [bool(expert.weight.grad.abs().sum() > 0) for expert in mixture.experts] == [True, True] + [
        False
    ] * 3
    assert all(expert.weight.grad is not None for expert in mixture.experts)
    assert mixture.router.weight.grad.abs().sum() > 0


def test_a_decoder_of_experts_is_causal_and_learns(config, tokens):
    config = dataclasses.replace(config, experts=4, active_experts=2, mlp_width=16, depth_scaled_init=True)
    torch.manual_seed(0)
    model = Decoder(config, PreNorm(config))
    mlp = model.layers[1].sublayer
    assert isinstance(mlp, MixtureOfExperts)
    assert mlp.experts[3].out.weight.std() < 0.6 * mlp.experts[3].up.weight.std()
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 31
    assert torch.allclose(model(tokens)[:, :7], model(changed)[:, :7], atol=1e-6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"experts": 0}, "experts=0.*1 or more"),
        ({"experts": 4, "active_experts": 5}, "active_experts=5.*1 to 4"),
        ({"experts": 4, "active_experts": 0}, "active_experts=0.*1 to 4"),
    ],
)
def test_numbers_of_experts_that_do_not_fit_are_refused(config, changes, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(config, **changes)
