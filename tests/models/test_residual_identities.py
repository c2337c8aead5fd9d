"""Designs meet exactly where their formulas do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from depthscope.models import BlockAttnRes, DecoderConfig, FullAttnRes, HiRes, PreNorm


def rms_norm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def sublayers(model):
    """The decoder's sublayers as plain functions of the read, with their norm."""
    return [lambda h, layer=layer: layer.sublayer(layer.norm(h)) for layer in model.layers]


def copy_residual(target, source):
    given = dict(source.residual.named_parameters())
    with torch.no_grad():
        for name, parameter in target.residual.named_parameters():
            parameter.copy_(given[name])
    return target


def test_prenorm_is_the_hand_written_transformer_bitwise(build, tokens, gradients):
    model = build("prenorm")

    def by_hand():
        stream = model.embedding.token.weight[tokens]
        for layer in model.layers:
            stream = stream + layer.sublayer(rms_norm(stream, layer.norm.weight))
        return F.linear(rms_norm(stream, model.norm.weight), model.head.weight)

    assert torch.equal(model(tokens), by_hand())
    ours, theirs = (gradients(model, logits, tokens) for logits in (model(tokens), by_hand()))
    assert ours.keys() == dict(model.named_parameters()).keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def test_full_attnres_is_block_attnres_with_blocks_of_one_bitwise(build, config, tokens, gradients):
    full = build(FullAttnRes(config), jitter=0.3)
    block = copy_residual(build(BlockAttnRes(config, block_size=1), like=full), full)
    assert torch.equal(full(tokens), block(tokens))
    ours, theirs = gradients(full, full(tokens), tokens), gradients(block, block(tokens), tokens)
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def test_full_attnres_agrees_with_an_independent_loop(build, tokens):
    model = build("full-attnres", jitter=0.3)
    v = [model.embedding(tokens)]

    def aggregate(target):
        mixer = model.residual.mix[target]
        logits = []
        for source in v:
            key = source / torch.sqrt((source**2).mean(-1, keepdim=True) + 1e-6) * mixer.key_norm.weight
            logits.append(key @ mixer.query)
        exponentials = [logit.exp() for logit in logits]
        return sum((e / sum(exponentials))[..., None] * s for e, s in zip(exponentials, v, strict=True))

    for index, sublayer in enumerate(sublayers(model)):
        v.append(sublayer(aggregate(index)))
    expected = model.head(model.norm(aggregate(8)))
    assert (model(tokens) - expected).abs().max() < 2e-6 * expected.abs().max() + 1.4e-6


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
def test_block_attnres_agrees_with_a_loop_over_all_outputs(build, config, tokens, size):
    """Sizes 3 and 5 leave a shorter last block."""
    model = build(BlockAttnRes(config, block_size=size), jitter=0.3)
    outputs = [model.embedding(tokens)]

    def aggregate(target):
        finished = 8 if target == 8 else target // size * size
        blocks = [sum(outputs[1 + a : 1 + min(a + size, 8)]) for a in range(0, finished, size)]
        partial = [sum(outputs[1 + finished : 1 + target])] if finished < target < 8 else []
        values = torch.stack([outputs[0], *blocks, *partial])
        mixer = model.residual.mix[target]
        keys = F.rms_norm(values, (24,), mixer.key_norm.weight, 1e-6)
        return torch.einsum("nbt,nbtd->btd", torch.softmax(keys @ mixer.query, 0), values)

    for index, sublayer in enumerate(sublayers(model)):
        outputs.append(sublayer(aggregate(index)))
    expected = model.head(model.norm(aggregate(8)))
    assert (model(tokens) - expected).abs().max() < 2e-6 * expected.abs().max() + 1.4e-6


def test_block_boundaries_of_equal_size_are_the_block_size(build, config, tokens):
    sized = build(BlockAttnRes(config, block_size=3), jitter=0.3)
    listed = build(BlockAttnRes(config, boundaries=(3, 6)), like=sized)
    assert torch.equal(sized(tokens), copy_residual(listed, sized)(tokens))


@pytest.mark.parametrize("design", ["full-attnres", "block-attnres:S=3"])
def test_zero_queries_read_the_mean_of_the_sources(build, tokens, design):
    model = build(design)
    seen = []
    for mixer in model.residual.mix:
        mixer.weights.register_forward_hook(lambda module, inputs, alpha: seen.append(alpha))
        mixer.register_forward_hook(lambda module, inputs, read: seen.append((inputs[0], read)))
    model(tokens)
    for alpha, (sources, read) in zip(seen[::2], seen[1::2], strict=True):
        assert torch.allclose(alpha, torch.full_like(alpha, 1 / len(sources)), rtol=1e-6)
        assert torch.allclose(read, torch.stack(sources).mean(0), rtol=1e-5, atol=1e-6)


def test_zero_queries_equal_prenorm_by_scale_invariance_in_fp64(build):
    """Only where nothing but a norm follows, and with eps -> 0: the mean is the stream over its count."""
    config = DecoderConfig(vocabulary=31, width=24, layers=8, heads=3, context=16, norm_eps=1e-30)
    tokens = torch.randint(0, 31, (2, 13), generator=torch.Generator().manual_seed(3))
    prenorm = build("prenorm", config=config)
    full = build("full-attnres", like=prenorm, config=config)
    difference = (prenorm.double()(tokens) - full.double()(tokens)).abs().max()
    assert difference < 1e-13


@pytest.mark.parametrize("n", [1, 2, 1.5])
def test_hires_reduced_to_its_skip_is_prenorm_bitwise(build, config, tokens, gradients, n):
    prenorm = build("prenorm")
    hires = build(
        HiRes(config, n=n, blocks=2, gate=0, outer_residual=False, boundary_norm=False), like=prenorm
    )
    assert torch.equal(prenorm(tokens), hires(tokens))
    ours, theirs = (gradients(m, m(tokens), tokens) for m in (prenorm, hires))
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def test_hires_without_gates_or_outer_residual_is_one_norm_per_block(build, config, tokens):
    """HiNorm: PreNorm whose stream passes a norm every L/B sublayers."""
    hires = build(HiRes(config, n=1, blocks=2, gate=0, outer_residual=False), jitter=0.1)
    stream = hires.embedding(tokens)
    for index, sublayer in enumerate(sublayers(hires)):
        stream = stream + sublayer(stream)
        if index in (3, 7):
            stream = rms_norm(stream, hires.residual.norms[index // 4].weight)
    assert torch.equal(hires(tokens), hires.head(hires.norm(stream)))


def test_an_identity_interface_is_a_gate_that_is_closed(build, config, tokens, gradients):
    gated = build(HiRes(config, n=1, blocks=2, gate=0, outer_residual=False), jitter=0.1)
    hinorm = build(HiRes(config, n=1, blocks=2, identity=True, outer_residual=False), like=gated)
    names = [name for name, _ in hinorm.residual.named_parameters()]
    assert names == ["norms.0.weight", "norms.1.weight"]
    assert torch.equal(copy_residual(hinorm, gated)(tokens), gated(tokens))


def test_hinorm_after_every_sublayer_without_prenorm_is_postnorm_bitwise(build, config, tokens, gradients):
    postnorm = build("postnorm", jitter=0.2)
    every = tuple(range(1, 9))
    hinorm = HiRes(config, n=1, boundaries=every, identity=True, outer_residual=False)
    model = copy_residual(build(hinorm, like=postnorm), postnorm)
    for layer in model.layers:
        layer.norm = torch.nn.Identity()
    model.norm = torch.nn.Identity()
    assert torch.equal(model(tokens), postnorm(tokens))
    ours, theirs = (gradients(m, m(tokens), tokens) for m in (model, postnorm))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("n", [2, 0.75, 1.5])
@pytest.mark.parametrize("block_output", ["stream", "increment"])
def test_hires_agrees_with_its_formulas(build, config, tokens, n, block_output):
    model = build(HiRes(config, n=n, blocks=2, block_output=block_output), jitter=0.3)
    width, outer = 24, int(24 * n)
    residual = model.residual

    def apply(interface, x, inputs, outputs):
        matrix = interface.weight.new_zeros(outputs, inputs)
        matrix.diagonal().fill_(1)
        share = 1 / (1 + torch.exp(-interface.gate))
        return x @ ((1 - share) * matrix + share * interface.weight).T

    layers = sublayers(model)
    h = apply(residual.E, model.embedding(tokens), width, outer)
    for block in range(2):
        x = start = apply(residual.R[block], h, outer, width)
        for sublayer in layers[4 * block : 4 * block + 4]:
            x = x + sublayer(x)
        phi = x - start if block_output == "increment" else x
        h = rms_norm(h + apply(residual.W[block], phi, width, outer), residual.norms[block].weight)
    expected = model.head(model.norm(apply(residual.H, h, outer, width)))
    assert torch.allclose(model(tokens), expected, rtol=1e-4, atol=5e-6)


def test_every_hires_interface_starts_at_a_tenth(config):
    residual = HiRes(config, n=2, blocks=4)
    for interface in (residual.E, residual.H, *residual.R, *residual.W):
        assert torch.sigmoid(interface.gate).item() == pytest.approx(0.1, rel=1e-6)
    assert residual.E.weight.shape == (48, 24)
    assert residual.H.weight.shape == residual.R[0].weight.shape == (24, 48)


def test_frozen_hires_interfaces_do_not_learn(build, config, tokens, gradients):
    model = build(HiRes(config, n=2, blocks=2, frozen=True))
    moved = gradients(model, model(tokens), tokens)
    assert "residual.R.0.weight" not in moved
    assert "residual.R.0.gate" in moved


def test_prenorm_is_the_base_of_the_protocol():
    from depthscope.models import Residual

    assert PreNorm is Residual
