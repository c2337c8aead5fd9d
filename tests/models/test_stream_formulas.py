"""Designs with several streams compute their papers' formulas, written a second time and by other means."""

from __future__ import annotations

import pytest
import torch

from depthscope.models import MHC, VWN, AltUp, HyperConnections


def walk(model, tokens, step):
    """Logits from streams [batch, time, n, d] kept by hand; `step` gives h, then the new streams from o."""
    residual = model.residual
    v = model.embedding(tokens)
    streams = v.unsqueeze(-2).expand(*v.shape[:-1], residual.streams, v.shape[-1])
    for index, (layer, connection) in enumerate(zip(model.layers, residual.connections, strict=True)):
        h, finish = step(connection, index, streams)
        streams = finish(layer.sublayer(layer.norm(h)))
    return streams


@pytest.mark.parametrize("dynamic", [False, True])
def test_hyper_connections_follow_their_formulas(build, config, tokens, dynamic):
    model = build(HyperConnections(config, n=3, dynamic=dynamic), jitter=0.2)

    def step(c, index, H):
        a_m, a_r, b = c.read_from, c.mix, c.write_to
        if dynamic:
            normed = H * torch.rsqrt(H.square().mean(-1, keepdim=True) + 1e-6) * c.norm.weight
            a_m = a_m + c.width_scale * torch.tanh(torch.einsum("btnd,d->btn", normed, c.read_map))
            a_r = a_r + c.width_scale * torch.tanh(torch.einsum("btnd,dm->btnm", normed, c.mix_map))
            b = b + c.depth_scale * torch.tanh(torch.einsum("btnd,d->btn", normed, c.write_map))
        a_m, a_r, b = (torch.broadcast_to(w, (2, 13, *w.shape[-k:])) for w, k in ((a_m, 1), (a_r, 2), (b, 1)))
        h = torch.einsum("btn,btnd->btd", a_m, H)
        carried = torch.einsum("btnm,btnd->btmd", a_r, H)
        return h, lambda o: carried + torch.einsum("btn,btd->btnd", b, o)

    expected = model.head(model.norm(walk(model, tokens, step).sum(-2)))
    assert torch.allclose(model(tokens), expected, rtol=1e-3, atol=1e-4)


def test_mhc_follows_its_formulas(build, config, tokens):
    model = build(MHC(config, n=3), jitter=0.2)

    def step(c, index, H):
        flat = H.reshape(2, 13, -1)
        x = flat * torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-6) * c.norm.weight
        pre = 1 / (1 + torch.exp(-(c.alpha[0] * x @ c.read_map + c.read_bias)))
        post = 2 / (1 + torch.exp(-(c.alpha[1] * x @ c.write_map + c.write_bias)))
        m = torch.exp((c.alpha[2] * x @ c.mix_map + c.mix_bias).view(2, 13, 3, 3))
        for _ in range(20):
            m = m / m.sum(-2, keepdim=True)
            m = m / m.sum(-1, keepdim=True)
        h = torch.einsum("btn,btnd->btd", pre, H)
        carried = torch.einsum("btmn,btnd->btmd", m, H)
        return h, lambda o: carried + torch.einsum("btn,btd->btnd", post, o)

    expected = model.head(model.norm(walk(model, tokens, step).sum(-2)))
    assert torch.allclose(model(tokens), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("K", [2, 3])
def test_altup_predicts_computes_and_corrects(build, config, tokens, K):
    model = build(AltUp(config, K=K), jitter=0.2)

    def step(c, index, x):
        chosen = index // 2 % K
        predicted = torch.einsum("ij,btjd->btid", c.prediction, x)

        def finish(o):
            surprise = x[..., chosen, :] + o - predicted[..., chosen, :]
            return predicted + torch.einsum("i,btd->btid", c.gain, surprise)

        return x[..., chosen, :], finish

    expected = model.head(model.norm(walk(model, tokens, step).mean(-2)))
    assert torch.allclose(model(tokens), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_vwn_follows_its_formulas(build, config, tokens, dynamic):
    """Two segments of 12 under three: a state of width 36."""
    model = build(VWN(config, m=2, n=3, dynamic=dynamic), jitter=0.2)
    residual = model.residual
    H = (model.embedding(tokens) @ residual.wide.T).view(2, 13, 3, 12)
    for layer, c in zip(model.layers, residual.connections, strict=True):
        A, B = c.read_and_mix, c.write_to
        if dynamic:
            normed = H * torch.rsqrt(H.square().mean(-1, keepdim=True) + 1e-6) * c.norm.weight
            A = A + c.read_and_mix_scale * torch.tanh(normed @ c.read_and_mix_map)
            B = B + c.write_scale * torch.tanh(normed @ c.write_map).transpose(-1, -2)
        A, B = torch.broadcast_to(A, (2, 13, 3, 5)), torch.broadcast_to(B, (2, 13, 2, 3))
        h = torch.einsum("btnm,btnk->btmk", A[..., :2], H).reshape(2, 13, 24)
        o = layer.sublayer(layer.norm(h)).view(2, 13, 2, 12)
        H = torch.einsum("btnm,btnk->btmk", A[..., 2:], H) + torch.einsum("btmn,btmk->btnk", B, o)
    expected = model.head(model.norm(H.reshape(2, 13, 36) @ residual.reduce.T))
    assert torch.allclose(model(tokens), expected, rtol=1e-3, atol=1e-4)


def test_delta_attnres_adds_a_mix_of_deltas_to_the_stream(build, tokens):
    model = build("delta-attnres:S=2", jitter=0.3)
    v = model.embedding(tokens)
    stream, outputs = v, []

    def read(target):
        finished = target // 2 * 2 if target < 8 else 8
        sums = [v, *(outputs[a] + outputs[a + 1] for a in range(0, finished, 2)), *outputs[finished:target]]
        mixer, values = model.residual.mix[target], torch.stack(sums)
        keys = torch.nn.functional.rms_norm(values, (24,), mixer.key_norm.weight, 1e-6)
        return stream + torch.einsum("nbt,nbtd->btd", torch.softmax(keys @ mixer.query, 0), values)

    for index, layer in enumerate(model.layers):
        outputs.append(layer.sublayer(layer.norm(read(index))))
        stream = stream + outputs[-1]
    assert torch.allclose(model(tokens), model.head(model.norm(read(8))), rtol=1e-3, atol=1e-4)
