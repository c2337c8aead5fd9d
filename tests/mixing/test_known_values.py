"""Contributions and coefficients that are known beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.marks import DepthAxis, Port, Sublayer
from depthscope.mixing import measure_mixing
from tests.mixing.models import CONFIG, TOKENS, moved

LAYERS = 8


def reachable(values):
    """Return what each target has of the origins it can hold, the constant left out."""
    return [values[target, : target + 1] for target in range(LAYERS + 1)]


@pytest.mark.parametrize("design", ["prenorm", "lns"])
def test_on_one_plain_stream_all_coefficients_are_one(design):
    coefficient = measure_mixing(moved(design), TOKENS)["mixing_coefficient"].values
    for row in reachable(coefficient):
        np.testing.assert_allclose(row, 1.0, atol=1e-6)
    assert np.isnan(coefficient[:, -1]).all()  # the constant is no multiple of an origin
    assert np.isnan(coefficient[0, 1:]).all()  # nothing comes from what is written later


def alphas(model):
    """Return the weights that every mixer gives in evaluation, [n_sources] each, as a mean over tokens."""
    seen = {}
    hooks = [
        mixer.weights.register_forward_hook(
            lambda module, args, output, target=target: seen.update({target: output.mean((1, 2))})
        )
        for target, mixer in enumerate(model.residual.mix)
    ]
    with torch.no_grad():
        model.eval()(TOKENS)
    for hook in hooks:
        hook.remove()
    return seen


def test_the_coefficients_of_full_attention_residuals_are_alpha():
    model = moved("full-attnres")
    coefficient = measure_mixing(model, TOKENS)["mixing_coefficient"].values
    for target, alpha in alphas(model).items():
        np.testing.assert_allclose(coefficient[target, : target + 1], alpha, atol=2e-6)


def test_in_block_attention_residuals_the_members_of_a_block_share_its_alpha():
    model = moved("block-attnres:S=3")
    coefficient = measure_mixing(model, TOKENS)["mixing_coefficient"].values
    weights = alphas(model)
    # Sublayer 6 (target 5 from 0) reads the embedding, block 1 and the unfinished sum of sublayers 4 and 5.
    embedding, block, partial = weights[5].tolist()
    np.testing.assert_allclose(coefficient[5, :6], [embedding, *[block] * 3, *[partial] * 2], atol=2e-6)
    embedding, *blocks = weights[8].tolist()
    expected = [embedding, *[blocks[0]] * 3, *[blocks[1]] * 3, *[blocks[2]] * 2]
    np.testing.assert_allclose(coefficient[8, :9], expected, atol=2e-6)


def test_a_highway_multiplies_what_it_carries():
    """With w = 0 the gate is the same for all tokens: g o_l is written, and each later gate takes g of it away."""
    model = moved("highway")
    biases = torch.linspace(-1.5, 0.5, LAYERS)
    with torch.no_grad():
        for gate, bias in zip(model.residual.gates, biases, strict=True):
            gate.weight.zero_()
            gate.bias.fill_(bias)
    gates = torch.sigmoid(biases).double().numpy()
    coefficient = measure_mixing(model, TOKENS)["mixing_coefficient"].values
    for target, row in enumerate(reachable(coefficient)):
        carried = [np.prod(1 - gates[origin:target]) for origin in range(target + 1)]
        written = [1.0, *gates[:target]]
        np.testing.assert_allclose(row, np.array(carried) * written, atol=1e-6)


def test_rezero_coefficients_are_its_factors():
    model = moved("rezero")
    factors = [float(p.detach()) for name, p in model.residual.named_parameters()]
    coefficient = measure_mixing(model, TOKENS)["mixing_coefficient"].values
    np.testing.assert_allclose(coefficient[-1, :-1], [1.0, *factors], atol=1e-6)


def test_layerscale_has_a_gain_for_each_feature_and_so_no_coefficients():
    coefficient = measure_mixing(moved("layerscale:start=0.1"), TOKENS)["mixing_coefficient"].values
    assert np.isfinite(coefficient[:, 0]).all()  # the embedding is scaled by nothing
    assert np.isnan(coefficient[:, 1:]).all()


def test_contributions_of_one_stream_are_inner_products():
    """PreNorm by hand: h_3 = v_0 + o_1 + o_2."""
    model = moved("prenorm")
    seen = []
    hooks = [model.embedding.register_forward_hook(lambda m, a, o: seen.append(o))]
    hooks += [layer.sublayer.register_forward_hook(lambda m, a, o: seen.append(o)) for layer in model.layers]
    with torch.no_grad():
        model(TOKENS)
    for hook in hooks:
        hook.remove()
    read = seen[0] + seen[1] + seen[2]
    expected = [float(((v * read).sum(-1) / (read * read).sum(-1)).mean()) for v in seen[:3]]
    row = measure_mixing(model, TOKENS)["mixing_contribution"].values[2]
    np.testing.assert_allclose(row[:3], expected, rtol=1e-5)
    assert np.isnan(row[3:9]).all()
    assert row[9] == 0


class OppositeWrites(nn.Module):
    """h_2 = v_0 + o_1, with o_1 = -0.9 v_0 exactly: a tenth is left of two large terms."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(31, 8)
        self.first, self.second = Scaled(-0.9), Scaled(0.5)
        self.read_first, self.read_second, self.last = nn.Identity(), nn.Identity(), nn.Identity()

    def forward(self, tokens):
        stream = self.embedding(tokens)
        stream = stream + self.first(self.read_first(stream))
        stream = stream + self.second(self.read_second(stream))
        return self.last(stream)

    def describe_depth(self):
        return described(2, final="last")


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


def described(layers, final):
    names = ("first", "second")[:layers]
    return DepthAxis(
        design="hand-made",
        embedding=Port(module="embedding", side="output"),
        final_read=Port(module=final, side="output"),
        sublayers=tuple(
            Sublayer(
                index=index,
                name=f"{index} {name}",
                kind="other",
                transformer_block=index,
                residual_block=0,
                read=Port(module=f"read_{name}", side="output"),
                write=Port(module=name, side="output"),
                state=None,
                additive=True,
                fresh=None,
                parameters=(),
            )
            for index, name in enumerate(names, start=1)
        ),
    )


def test_cancellation_is_the_size_of_the_terms_against_their_sum():
    """h_2 = 0.1 v_0: shares 10 and -9, cancellation 19. h_3 = 0.15 v_0: 1/0.15, -0.9/0.15, 0.05/0.15."""
    mixing = measure_mixing(OppositeWrites(), TOKENS)
    np.testing.assert_allclose(mixing["mixing_contribution"].values[1, :2], [10, -9], rtol=1e-4)
    np.testing.assert_allclose(mixing["mixing_contribution"].values[2, :3], [1 / 0.15, -6, 1 / 3], rtol=1e-4)
    np.testing.assert_allclose(mixing["mixing_cancellation"], [1, 19, 13], rtol=1e-4)


class BiasedStream(nn.Module):
    """A LayerNorm with a bias on the stream itself: h_2 = scale (v_0 + o_1 - mean) + bias."""

    def __init__(self):
        super().__init__()
        self.embedding, self.first = nn.Embedding(31, 8), nn.Linear(8, 8)
        self.read_first, self.last = nn.Identity(), nn.Identity()
        self.norm = nn.LayerNorm(8)
        with torch.no_grad():
            self.norm.bias.fill_(0.5)

    def forward(self, tokens):
        stream = self.embedding(tokens)
        return self.last(self.norm(stream + self.first(self.read_first(stream))))

    def describe_depth(self):
        return described(1, final="last")


def test_biases_on_the_way_are_an_origin_of_their_own():
    """What is normed sums to 0 over features, so <bias, h> = 8 (0.5)^2 = 2 of each token's ||h||^2."""
    torch.manual_seed(1)
    model = BiasedStream()
    size = model(TOKENS).detach().square().sum(-1)
    mixing = measure_mixing(model, TOKENS)
    assert mixing.way == "functions"
    last = mixing["mixing_contribution"].values[-1]
    np.testing.assert_allclose(last[-1], float((2 / size).mean()), rtol=1e-5)
    assert last[-1] > 0.15
    np.testing.assert_allclose(np.nansum(last), 1.0, atol=1e-5)


def test_checkpointing_leads_to_the_slow_way_and_the_same_numbers():
    plain = moved("block-attnres:S=3")
    again = moved("block-attnres:S=3", replace(CONFIG, checkpoint=True))
    one, other = measure_mixing(plain, TOKENS), measure_mixing(again, TOKENS)
    for name in ("mixing_contribution", "mixing_coefficient", "mixing_cancellation"):
        np.testing.assert_allclose(one[name], other[name], atol=1e-5)
