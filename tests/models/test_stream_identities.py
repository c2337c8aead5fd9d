"""Designs with several streams meet PreNorm and each other exactly where their formulas do."""

from __future__ import annotations

import pytest
import torch

from depthscope.marks import Tape
from depthscope.models import MHC, VWN, AltUp, HyperConnections
from depthscope.models.mhc import all_permutations, sinkhorn


@pytest.fixture
def prenorm(build):
    return build("prenorm")


def shared_gradients_agree(model, other, tokens, gradients, tolerance):
    ours, theirs = (gradients(m, m(tokens), tokens) for m in (model, other))
    shared = [name for name in ours if name in theirs and not name.startswith("residual.")]
    assert len(shared) >= 20
    for name in shared:
        assert (ours[name] - theirs[name]).abs().max() <= tolerance * theirs[name].abs().max(), name


@pytest.mark.parametrize(
    "design",
    ["hc:n=1,dynamic=no", "hc:n=1,dynamic=yes", "vwn:m=1,n=1,dynamic=no", "vwn:m=2,n=3,dynamic=no",
     "vwn:m=2,n=3,dynamic=yes", "vwn:m=4,n=8", "altup:K=1", "altup:K=2", "altup:K=4"],
)  # fmt: skip
def test_a_start_is_prenorm_bitwise(build, prenorm, tokens, gradients, design):
    model = build(design, like=prenorm)
    assert torch.equal(model(tokens), prenorm(tokens))
    shared_gradients_agree(model, prenorm, tokens, gradients, 2e-5)


class Mean(HyperConnections):
    def end(self, state):
        return super().end(state) / self.streams


class MeanMHC(MHC):
    def end(self, state):
        return super().end(state) / self.streams


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("dynamic", [False, True])
def test_hyper_connections_start_as_prenorm_bitwise_but_for_the_sum(
    build, config, prenorm, tokens, n, dynamic
):
    """n streams that are alike sum to n times PreNorm's; with the mean in its place nothing is left."""
    assert torch.equal(build(Mean(config, n=n, dynamic=dynamic), like=prenorm)(tokens), prenorm(tokens))
    summed = build(HyperConnections(config, n=n, dynamic=dynamic), like=prenorm)
    seen = []
    summed.end.register_forward_hook(lambda module, inputs, last: seen.append(last))
    prenorm.end.register_forward_hook(lambda module, inputs, last: seen.append(last))
    summed(tokens), prenorm(tokens)
    assert torch.equal(seen[0], n * seen[1])


def closed(residual):
    """H_res = I, H_pre = e_k, H_post = 1, whatever the token."""
    with torch.no_grad():
        for layer, connection in enumerate(residual.connections):
            n = connection.streams
            connection.alpha.zero_()
            connection.read_bias.fill_(-200)[layer % n] = 200
            if connection.permutations is None:
                connection.mix_bias.copy_((400 * torch.eye(n) - 200).flatten())
            else:
                connection.mix_bias.zero_()[0] = 200
    return residual


@pytest.mark.parametrize(("n", "lite"), [(1, False), (2, False), (4, False), (3, True)])
def test_mhc_with_closed_connections_is_prenorm_bitwise(build, config, prenorm, tokens, n, lite):
    model = build(closed(MeanMHC(config, n=n, lite=lite)), like=prenorm)
    if n == 3:  # a third of three times is not the same number in fp32
        assert torch.allclose(model(tokens), prenorm(tokens), rtol=1e-5, atol=1e-5)
    else:
        assert torch.equal(model(tokens), prenorm(tokens))


@pytest.mark.parametrize("lite", [False, True])
def test_mhc_starts_near_prenorm_but_not_equal(build, config, prenorm, tokens, lite):
    """Reads are 1.036 times a stream at most times its norm: only eps and the small maps are left."""
    model = build(MHC(config, n=4, lite=lite), like=prenorm)
    off = (model(tokens) - prenorm(tokens)).abs().max() / prenorm(tokens).abs().max()
    assert 0 < off < 2e-2


def test_sinkhorn_makes_a_matrix_doubly_stochastic():
    mild, sharp = torch.randn(50, 4, 4), 8 * torch.randn(50, 4, 4)
    for logits in (mild, sharp):
        assert (sinkhorn(logits) >= 0).all()
        assert torch.allclose(sinkhorn(logits).sum(-1), torch.ones(50, 4), atol=1e-6)
    assert torch.allclose(sinkhorn(mild).sum(-2), torch.ones(50, 4), atol=1e-5)
    residue = (sinkhorn(sharp).sum(-2) - 1).abs().max()
    assert 1e-4 < residue < 0.5
    # By hand: [[a, b], [b, a]] has equal sums already, so one division does it.
    expected = torch.tensor([[0.75, 0.25], [0.25, 0.75]])
    assert torch.allclose(sinkhorn(torch.tensor([[3.0, 1.0], [1.0, 3.0]]).log()), expected)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_mhc_lite_mixes_doubly_stochastically_to_rounding(config, n):
    residual = MHC(config, n=n, lite=True)
    connection = residual.connections[0]
    with torch.no_grad():
        connection.mix_bias.normal_(0, 8)
        mixing = connection.mixing_weights(torch.randn(2, 5, n, 24))
    assert mixing.shape == (2, 5, n, n)
    for axis in (-1, -2):
        assert torch.allclose(mixing.sum(axis), torch.ones(2, 5, n), atol=1e-6)
    assert len(all_permutations(n)) == [0, 0, 2, 6, 24][n]
    assert torch.equal(all_permutations(n)[0], torch.eye(n))


def test_altup_is_hyper_connections_with_mapped_weights(build, config, tokens):
    """A_m = e_c, A_r^T = p + g (e_c - p_c)^T, B = g, and the mean for the sum."""
    altup = build(AltUp(config, K=2), jitter=0.3)
    hc = build(Mean(config, n=2, dynamic=False), like=altup)
    with torch.no_grad():
        for layer, (ours, theirs) in enumerate(
            zip(hc.residual.connections, altup.residual.connections, strict=True)
        ):
            e = torch.eye(2)[layer // 2 % 2]
            p, g = theirs.prediction, theirs.gain
            ours.read_from.copy_(e)
            ours.mix.copy_((p + torch.outer(g, e - p[layer // 2 % 2])).T)
            ours.write_to.copy_(g)
    off = (altup(tokens) - hc(tokens)).abs().max() / altup(tokens).abs().max()
    assert off < 5e-6


def test_vwn_of_one_segment_with_a_sum_is_hyper_connections(build, config, tokens):
    hc = build(HyperConnections(config, n=3, dynamic=False), jitter=0.3)
    vwn = build(VWN(config, m=1, n=3, dynamic=False), like=hc)
    with torch.no_grad():
        vwn.residual.reduce.copy_(torch.eye(24).repeat(1, 3))
        for ours, theirs in zip(vwn.residual.connections, hc.residual.connections, strict=True):
            ours.read_and_mix.copy_(torch.cat((theirs.read_from[:, None], theirs.mix), 1))
            ours.write_to.copy_(theirs.write_to[None])
    off = (vwn(tokens) - hc(tokens)).abs().max() / hc(tokens).abs().max()
    assert off < 5e-6


@pytest.mark.parametrize("design", ["hc:n=3,dynamic=yes", "mhc:n=2", "vwn:m=2,n=3", "altup:K=2"])
def test_the_doors_show_what_is_applied_to_the_streams(build, tokens, design):
    """h = A H and H <- P H + B o, rebuilt from what passes the doors of one connection."""
    model = build(design, jitter=0.3)
    connection, seen = model.residual.connections[3], {}
    for name in ("reading", "mixing", "writing", "spread"):
        getattr(connection, name).register_forward_hook(
            lambda module, inputs, output, name=name: seen.update({name: output})
        )
    for name, module in (("read", model.layers[3].read), ("write", model.layers[3].write)):
        module.register_forward_hook(
            lambda module, inputs, output, name=name: seen.update({name: (inputs, output)})
        )
    model(tokens)
    (state,), h = seen["read"]
    (_, output), after = seen["write"]
    n, m = connection.streams, connection.segments
    H = state.unflatten(-1, (n, -1))
    assert torch.allclose((seen["reading"] @ H).flatten(-2), h, rtol=1e-5, atol=1e-5)
    written = (seen["writing"] @ output.unflatten(-1, (m, -1))).flatten(-2)
    assert torch.allclose(seen["spread"], written, rtol=1e-5, atol=1e-5)
    assert torch.allclose((seen["mixing"] @ H).flatten(-2) + written, after, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("design", ["hc:n=4,dynamic=yes", "mhc:n=3", "mhc:n=3,lite=yes", "altup:K=2"])
def test_replayed_on_one_hot_sources_streams_show_their_mixing_matrix(build, design):
    """Widths come from the tensors, so that with coefficients replayed features may be the source axis itself."""
    residual = build(design, jitter=0.3).residual
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randn(2, 5, 24, generator=generator) for _ in range(9)]

    def run(sources):
        state, reads = residual.begin(sources[0]), []
        for layer, output in enumerate(sources[1:]):
            reads.append(residual.read(state, layer))
            state = residual.write(state, layer, output)
        return [*reads, residual.end(state)]

    with torch.no_grad():
        tape = Tape()
        with tape:
            reads = run(sources)
        with tape:
            rows = run([row.expand(2, 5, 9) for row in torch.eye(9)])
    for row, read in zip(rows, reads, strict=True):
        mixed = torch.einsum("bti,ibtd->btd", row, torch.stack(sources))
        assert torch.allclose(mixed, read, rtol=1e-4, atol=1e-4)


def test_the_matrix_that_ends_a_sublayer_starts_smaller_under_more_streams(config):
    from depthscope.models import Decoder, residual_from_string

    def started(design):
        torch.manual_seed(0)
        return Decoder(config, residual_from_string(design, config))

    one, four = started("hc:n=1"), started("hc:n=4")
    for ours, theirs in zip(four.layers, one.layers, strict=True):
        assert torch.allclose(ours.sublayer.out.weight, 0.5 * theirs.sublayer.out.weight)
    assert torch.equal(four.layers[0].sublayer.qkv.weight, one.layers[0].sublayer.qkv.weight)
