"""The reference decoder around the residual."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from depthscope.models import Decoder, DecoderConfig, PreNorm, RMSNorm
from depthscope.models.attention import CausalAttention, Rotary
from depthscope.models.mlp import GeluMLP, SwiGLU


def test_rms_norm_divides_by_the_root_mean_square():
    norm = RMSNorm(4)
    x = torch.tensor([[3.0, -3.0, 3.0, -3.0], [1.0, 1.0, 1.0, 5.0]])
    expected = torch.stack([x[0] / 3, x[1] / 7**0.5])
    assert torch.allclose(norm(x), expected, rtol=1e-6)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 0.0, -1.0]))
    assert torch.allclose(norm(x), expected * norm.weight, rtol=1e-6)


def test_rms_norm_agrees_with_torch():
    norm, x = RMSNorm(24), torch.randn(3, 24)
    assert torch.allclose(norm(x), F.rms_norm(x, (24,), norm.weight, 1e-6), atol=1e-6)


def test_rotary_scores_depend_on_distance_only():
    rotary = Rotary(head_width=8, context=16)
    query, key = torch.randn(8), torch.randn(8)
    turned_query, turned_key = (rotary(v.expand(1, 1, 16, 8))[0, 0] for v in (query, key))
    scores = turned_query @ turned_key.T
    for distance in range(1, 16):
        diagonal = scores.diagonal(-distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-4)
    assert scores[0, 0] == pytest.approx((query @ key).item(), rel=1e-5)
    assert torch.allclose(turned_query.norm(dim=-1), query.norm().expand(16))


def test_rotary_turns_the_first_pair_by_one_radian_a_position():
    rotary = Rotary(head_width=2, context=3)
    turned = rotary(torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2))[0, 0]
    angles = torch.arange(3.0)
    assert torch.allclose(turned, torch.stack([angles.cos(), angles.sin()], -1), atol=1e-6)


def test_attention_is_softmax_over_the_past(config):
    config = dataclasses.replace(config, positions="learned")
    attention, x = CausalAttention(config), torch.randn(2, 6, 24)
    query, key, value = (
        part.view(2, 6, 3, 8).transpose(1, 2) for part in F.linear(x, attention.qkv.weight).chunk(3, dim=-1)
    )
    scores = query @ key.transpose(-1, -2) / 8**0.5
    scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
    mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(2, 6, 24)
    assert torch.allclose(attention(x), F.linear(mixed, attention.out.weight), atol=1e-5)


def test_mlps_follow_their_formulas():
    x = torch.randn(5, 6)
    gated, plain = SwiGLU(6, 16), GeluMLP(6, 24)
    hidden = x @ gated.gate.weight.T
    expected = (hidden * torch.sigmoid(hidden) * (x @ gated.up.weight.T)) @ gated.out.weight.T
    assert torch.allclose(gated(x), expected, atol=1e-6)
    hidden = x @ plain.up.weight.T
    expected = (0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))) @ plain.out.weight.T
    assert torch.allclose(plain(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({}, 64),
        ({"width": 64, "heads": 4}, 176),
        ({"mlp": "gelu"}, 96),
        ({"mlp": "gelu", "mlp_width": 10}, 10),
    ],
)
def test_the_mlp_is_as_wide_as_the_config_says(config, changes, hidden):
    config = dataclasses.replace(config, **changes)
    model = Decoder(config, PreNorm(config))
    assert model.layers[1].sublayer.out.in_features == hidden


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_the_order_of_tokens_matters(config, positions):
    config = dataclasses.replace(config, positions=positions, init_std=0.3)
    model = Decoder(config, PreNorm(config))
    logits = model(torch.tensor([[1, 2, 3], [2, 1, 3]]))
    assert not torch.allclose(logits[0, -1], logits[1, -1], atol=1e-3)


def test_learned_positions_belong_to_the_embedding(config, tokens):
    config = dataclasses.replace(config, positions="learned")
    model = Decoder(config, PreNorm(config))
    expected = model.embedding.token.weight[tokens] + model.embedding.position[:13]
    assert torch.equal(model.embedding(tokens), expected)


def test_a_tied_head_shares_the_token_embedding(config):
    model = Decoder(
        dataclasses.replace(config, tied_head=True), PreNorm(dataclasses.replace(config, tied_head=True))
    )
    assert model.head.weight is model.embedding.token.weight
    assert "head.weight" not in dict(model.named_parameters())
    assert Decoder(config, PreNorm(config)).head.weight.shape == (31, 24)


def test_matrices_start_at_the_configured_size():
    config = DecoderConfig(width=128, layers=4, init_std=0.05)
    scaled = dataclasses.replace(config, depth_scaled_init=True)
    plain_model, scaled_model = (Decoder(c, PreNorm(c)) for c in (config, scaled))
    assert plain_model.layers[0].sublayer.out.weight.std().item() == pytest.approx(0.05, rel=0.03)
    assert scaled_model.layers[0].sublayer.out.weight.std().item() == pytest.approx(0.025, rel=0.03)
    assert scaled_model.layers[1].sublayer.out.weight.std().item() == pytest.approx(0.025, rel=0.03)
    assert scaled_model.layers[1].sublayer.up.weight.std().item() == pytest.approx(0.05, rel=0.03)
    assert scaled_model.head.weight.std().item() == pytest.approx(0.05, rel=0.03)


def test_a_sequence_beyond_the_context_is_refused_with_the_way_out(config):
    model = Decoder(config, PreNorm(config))
    with pytest.raises(ValueError, match=r"17 tokens.*context of 16.*DecoderConfig\(context=17\)"):
        model(torch.zeros(1, 17, dtype=torch.long))


def test_design_and_decoder_come_from_one_config(config):
    other = dataclasses.replace(config, layers=10)
    with pytest.raises(ValueError, match="build both from one config"):
        Decoder(config, PreNorm(other))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 7}, "layers=7.*even.*layers=8"),
        ({"layers": 0}, "layers=0"),
        ({"heads": 5}, "width=24.*heads=5"),
        ({"heads": 8}, "odd width 3.*learned"),
        ({"positions": "sine"}, "positions='sine'.*'rotary' or 'learned'"),
        ({"mlp": "relu"}, "mlp='relu'.*'swiglu' or 'gelu'"),
        ({"mlp_width": 0}, "mlp_width=0: expected 1 or more"),
    ],
)
def test_a_config_that_does_not_fit_says_why(config, changes, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(config, **changes)
