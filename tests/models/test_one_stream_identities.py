"""Designs on one stream meet PreNorm, PostNorm or the hand-written formula exactly where theirs say so."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from depthscope.models import Decoder, LayerScale


def rms_norm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@pytest.fixture
def prenorm(build):
    return build("prenorm")


@pytest.fixture
def assert_equal(tokens, gradients):
    """Logits are bitwise equal, and the gradients of every parameter that both models have."""

    def assert_equal(model, other):
        assert torch.equal(model(tokens), other(tokens))
        ours, theirs = (gradients(m, m(tokens), tokens) for m in (model, other))
        shared = [name for name in ours if name in theirs and not name.startswith("residual.")]
        assert len(shared) >= 20
        for name in shared:
            assert torch.equal(ours[name], theirs[name]), name

    return assert_equal


def fill(model, part, value):
    with torch.no_grad():
        for name, parameter in model.residual.named_parameters():
            if name.endswith(part):
                parameter.fill_(value)
    return model


def test_postnorm_is_the_hand_written_transformer_bitwise(build, tokens):
    model = build("postnorm", jitter=0.2)
    stream = model.embedding.token.weight[tokens]
    for layer, norm in zip(model.layers, model.residual.norms, strict=True):
        stream = rms_norm(stream + layer.sublayer(stream), norm.weight)
    assert torch.equal(model(tokens), F.linear(stream, model.head.weight))
    assert not [name for name, _ in model.named_parameters() if "norm" in name and "residual" not in name]


def test_peri_ln_norms_both_sides_of_a_sublayer(build, tokens):
    model = build("peri-ln", jitter=0.2)
    stream = model.embedding(tokens)
    for layer, outer in zip(model.layers, model.residual.branches, strict=True):
        stream = stream + rms_norm(layer.sublayer(rms_norm(stream, layer.norm.weight)), outer.weight)
    assert torch.equal(model(tokens), model.head(model.norm(stream)))


def test_layer_norm_scaling_divides_by_the_root_of_the_transformer_block(build, prenorm, assert_equal):
    """Blocks 1 to 4, two sublayers each; without its factor it is PreNorm."""
    model = build("lns", like=prenorm)
    expected = [1, 1, 2**-0.5, 2**-0.5, 3**-0.5, 3**-0.5, 0.5, 0.5]
    x = torch.randn(3, 24)
    for layer, plain, factor in zip(model.layers, prenorm.layers, expected, strict=True):
        assert torch.allclose(layer.norm(x), plain.norm(x) * factor)
        layer.norm.scale = 1.0
    assert_equal(model, prenorm)


def test_rezero_at_one_is_prenorm(build, prenorm, assert_equal):
    assert_equal(fill(build("rezero", like=prenorm), "weight", 1.0), prenorm)


def test_rezero_starts_as_the_embedding(build, prenorm, tokens):
    model = build("rezero", like=prenorm)
    assert torch.equal(model(tokens), model.head(model.norm(model.embedding(tokens))))


def test_layerscale_at_one_is_prenorm(build, prenorm, assert_equal):
    assert_equal(build("layerscale:start=1", like=prenorm), prenorm)


@pytest.mark.parametrize(("layers", "start"), [(8, 0.1), (36, 0.1), (38, 1e-5), (48, 1e-5), (50, 1e-6)])
def test_layerscale_starts_smaller_in_deeper_models(config, layers, start):
    residual = LayerScale(dataclasses.replace(config, layers=layers))
    assert residual.branches[0].weight.tolist() == pytest.approx([start] * 24)


def test_a_closed_highway_ends_in_the_embedding(build, prenorm, tokens):
    model = build("highway:bias=-200", like=prenorm)
    assert torch.equal(model(tokens), model.head(model.norm(model.embedding(tokens))))


def test_a_highway_shares_the_stream_between_old_and_new(build, tokens):
    model = build("highway", jitter=0.3)
    stream = model.embedding(tokens)
    for layer, gate in zip(model.layers, model.residual.gates, strict=True):
        share = 1 / (1 + torch.exp(-(stream @ gate.weight) - gate.bias))[..., None]
        stream = (1 - share) * stream + share * layer.sublayer(layer.norm(stream))
    assert torch.allclose(model(tokens), model.head(model.norm(stream)), rtol=1e-4, atol=1e-5)


def test_a_highway_starts_with_three_tenths_of_the_new(config, build, tokens):
    model = build("highway")
    written = []
    gate, sublayer = model.residual.gates[0], model.layers[0].sublayer
    gate.register_forward_hook(lambda module, inputs, output: written.append((inputs[1], output[1])))
    model(tokens)
    assert sublayer is model.layers[0].sublayer
    (output, write) = written[0]
    assert torch.allclose(write, 0.26894142 * output, rtol=1e-5)


def test_deepnorm_without_its_factors_is_postnorm(build, assert_equal):
    postnorm = build("postnorm")
    model = build("deepnorm", like=postnorm)
    model.residual.alpha = 1.0
    assert_equal(model, postnorm)


def test_deepnorm_weighs_the_stream_and_starts_small(config, build, tokens):
    """M = 4 transformer blocks: alpha = 8^(1/4), beta = 32^(-1/4); queries and keys keep their size."""
    model = build("deepnorm", jitter=0.1)
    stream = model.embedding(tokens)
    for layer, norm in zip(model.layers, model.residual.norms, strict=True):
        stream = rms_norm(8**0.25 * stream + layer.sublayer(stream), norm.weight)
    assert torch.allclose(model(tokens), model.head(stream), rtol=1e-5, atol=1e-6)

    def started(design):
        torch.manual_seed(0)
        from depthscope.models import residual_from_string

        return Decoder(config, residual_from_string(design, config))

    small, plain = started("deepnorm"), started("postnorm")
    beta = 32**-0.25
    for deep, other in zip(small.layers[:2], plain.layers[:2], strict=True):
        theirs = dict(other.sublayer.named_parameters())
        for name, parameter in deep.sublayer.named_parameters():
            factor = torch.full_like(parameter, beta)
            if name == "qkv.weight":
                factor[:48] = 1.0
            assert torch.allclose(parameter, factor * theirs[name]), name


def test_denseformer_starts_as_prenorm(build, prenorm, assert_equal):
    assert_equal(build("denseformer", like=prenorm), prenorm)


def test_denseformer_averages_what_every_transformer_block_gave(build, tokens):
    model = build("denseformer", jitter=0.3)
    given = [model.embedding(tokens)]
    stream = given[0]
    for index, layer in enumerate(model.layers):
        stream = stream + layer.sublayer(layer.norm(stream))
        if index % 2:
            given.append(stream)
            weights = model.residual.averages[index // 2].weight
            stream = torch.einsum("i,ibtd->btd", weights, torch.stack(given))
    assert torch.allclose(model(tokens), model.head(model.norm(stream)), rtol=1e-4, atol=1e-5)
