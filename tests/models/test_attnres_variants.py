"""Variants of Attention Residuals are the plain design where they should be, and their formula elsewhere."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from depthscope.models import BlockAttnRes, DepthMixer, FullAttnRes, MixerOptions, TwoPhaseAttnRes
from depthscope.models.mixer import mix, mix_heads


def copy_residual(target, source):
    """Parameters of the design by name, where the source has them."""
    given = dict(source.residual.named_parameters())
    with torch.no_grad():
        for name, parameter in target.residual.named_parameters():
            if name in given:
                parameter.copy_(given[name])
    return target


def assert_equal(model, other, tokens, gradients):
    assert torch.equal(model(tokens), other(tokens))
    ours, theirs = (gradients(m, m(tokens), tokens) for m in (model, other))
    shared = [name for name in ours.keys() & theirs.keys() if ours[name].shape == theirs[name].shape]
    assert len(shared) >= 20
    for name in shared:
        assert torch.equal(ours[name], theirs[name]), name


def moved(mixer, seed=7):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return mixer


@pytest.fixture
def sources():
    generator = torch.Generator().manual_seed(2)
    return tuple(3 * torch.randn(2, 5, 24, generator=generator) for _ in range(5))


def test_a_window_over_all_sources_is_full_attnres_bitwise(build, config, tokens, gradients):
    full = build("full-attnres", jitter=0.3)
    windowed = copy_residual(build(FullAttnRes(config, window=8), like=full), full)
    assert_equal(windowed, full, tokens, gradients)


def test_a_window_reads_the_embedding_and_the_newest_sources(build, tokens):
    model = build("full-attnres:window=3", jitter=0.3)
    assert [m.sources for m in model.describe_depth().mixers] == [
        (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 2, 3, 4), (0, 3, 4, 5), (0, 4, 5, 6), (0, 5, 6, 7), (0, 6, 7, 8),
    ]  # fmt: skip
    v = [model.embedding(tokens)]
    for target, mixer in enumerate(model.residual.mix):
        seen = torch.stack([v[0], *v[1:][-3:]])
        keys = F.rms_norm(seen, (24,), mixer.key_norm.weight, 1e-6)
        h = torch.einsum("nbt,nbtd->btd", torch.softmax(keys @ mixer.query, 0), seen)
        if target < 8:
            v.append(model.layers[target].sublayer(model.layers[target].norm(h)))
    assert torch.allclose(model(tokens), model.head(model.norm(h)), rtol=1e-4, atol=1e-5)


def test_a_window_of_blocks_counts_the_unfinished_sum(build):
    axis = build("block-attnres:S=2,window=2").describe_depth()
    assert [m.sources for m in axis.mixers] == [
        (0,), (0, 1), (0, 1), (0, 1, 2), (0, 1, 2), (0, 2, 3), (0, 2, 3), (0, 3, 4), (0, 3, 4),
    ]  # fmt: skip


def test_an_input_dependent_query_starts_as_the_learned_one(build, config, tokens, gradients):
    block = build("block-attnres:S=3", jitter=0.3)
    options = MixerOptions(query="input")
    dependent = copy_residual(build(BlockAttnRes(config, block_size=3, mixer=options), like=block), block)
    assert_equal(dependent, block, tokens, gradients)
    assert torch.equal(dependent.residual.mix[3].projection, torch.zeros(24, 24))


def test_an_input_dependent_query_projects_the_newest_source(sources):
    mixer = moved(DepthMixer(24, 1e-6, 5, MixerOptions(query="input")))
    query = mixer.query + sources[-1] @ mixer.projection.T
    keys = F.rms_norm(torch.stack(sources), (24,), mixer.key_norm.weight, 1e-6)
    weights = torch.softmax((keys * query).sum(-1), 0)
    expected = torch.einsum("nbt,nbtd->btd", weights, torch.stack(sources))
    assert torch.allclose(mixer(sources), expected, rtol=1e-4, atol=1e-5)


def test_input_independent_weights_start_as_zero_queries(build, tokens, gradients):
    full = build("full-attnres")
    assert_equal(build("full-attnres:query=none", like=full), full, tokens, gradients)


def test_input_independent_weights_are_one_number_a_source(sources):
    mixer = moved(DepthMixer(24, 1e-6, 5, MixerOptions(query="none")))
    assert [name for name, _ in mixer.named_parameters()] == ["query"]
    expected = sum(a * v for a, v in zip(torch.softmax(mixer.query, 0), sources, strict=True))
    assert torch.allclose(mixer(sources), expected, rtol=1e-5, atol=1e-5)


def test_sigmoid_weighs_each_source_by_itself(sources):
    mixer = DepthMixer(24, 1e-6, 5, MixerOptions(score="sigmoid"))
    assert torch.allclose(mixer(sources), 0.5 * torch.stack(sources).sum(0), rtol=1e-5, atol=1e-5)
    moved(mixer)
    logits = F.rms_norm(torch.stack(sources), (24,), mixer.key_norm.weight, 1e-6) @ mixer.query
    expected = torch.einsum("nbt,nbtd->btd", 1 / (1 + torch.exp(-logits)), torch.stack(sources))
    assert torch.allclose(mixer(sources), expected, rtol=1e-4, atol=1e-5)


def test_without_a_key_norm_large_sources_win(sources):
    mixer = moved(DepthMixer(24, 1e-6, 5, MixerOptions(key_norm=False)))
    assert [name for name, _ in mixer.named_parameters()] == ["query"]
    weights = torch.softmax(torch.stack(sources) @ mixer.query, 0)
    expected = torch.einsum("nbt,nbtd->btd", weights, torch.stack(sources))
    assert torch.allclose(mixer(sources), expected, rtol=1e-4, atol=1e-5)


def test_one_head_is_no_heads_bitwise(sources):
    weights = torch.softmax(torch.randn(5, 2, 5), 0)
    assert torch.equal(mix_heads(weights.unsqueeze(-1), sources, 1), mix(weights, sources))


def test_heads_are_mixers_of_their_own_features(sources):
    """With logits per head from that head's part of the normalised key."""
    mixer = moved(DepthMixer(24, 1e-6, 5, MixerOptions(heads=3)))
    keys = F.rms_norm(torch.stack(sources), (24,), mixer.key_norm.weight, 1e-6)
    parts = []
    for part in (slice(0, 8), slice(8, 16), slice(16, 24)):
        weights = torch.softmax(keys[..., part] @ mixer.query[part], 0)
        parts.append(torch.einsum("nbt,nbtd->btd", weights, torch.stack(sources)[..., part]))
    assert torch.allclose(mixer(sources), torch.cat(parts, -1), rtol=1e-4, atol=1e-5)


def test_heads_are_described_and_have_no_one_weight_for_the_newest_write(build):
    axis = build("block-attnres:S=2,heads=4").describe_depth()
    assert {mixer.heads for mixer in axis.mixers} == {4}
    assert axis.source_names == ("embedding", "block 1", "block 2", "block 3", "block 4")
    assert {s.fresh for s in axis.sublayers} == {None}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 5}, "heads=5.*divisor.*24"),
        ({"heads": 0}, "heads=0"),
        ({"query": "none", "heads": 2}, "query=none"),
        ({"query": "none", "key_norm": False}, "query=none"),
    ],
)
def test_options_that_contradict_each_other_are_refused(config, options, words):
    with pytest.raises(ValueError, match=words):
        FullAttnRes(config, mixer=MixerOptions(**options))


def test_an_empty_window_is_refused(config):
    with pytest.raises(ValueError, match=r"window=0.*1 or more"):
        FullAttnRes(config, window=0)


# --- two phases ---------------------------------------------------------------------------------------------


def pair(build, config, size, dtype):
    plain = build(BlockAttnRes(config, block_size=size), jitter=0.5)
    phased = copy_residual(build(TwoPhaseAttnRes(config, block_size=size), like=plain), plain)
    return plain.to(dtype).residual, phased.to(dtype).residual


def reads(residual, sources):
    state = residual.begin(sources[0])
    found = []
    for layer, output in enumerate(sources[1:]):
        found.append(residual.read(state, layer))
        state = residual.write(state, layer, output)
    return [*found, residual.end(state)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize(
    ("dtype", "tolerance", "gradient"), [(torch.float32, 1e-6, 2e-5), (torch.float64, 2e-15, 2e-14)]
)
def test_two_phases_read_what_one_reads_with_equal_gradients(build, config, size, dtype, tolerance, gradient):
    """On equal sources, relative to the largest entry; sizes 3 and 5 leave a shorter last block."""
    plain, phased = pair(build, config, size, dtype)
    generator = torch.Generator().manual_seed(1)
    found, slopes = [], []
    for residual in (plain, phased):
        generator.manual_seed(1)
        sources = [torch.randn(2, 5, 24, generator=generator, dtype=dtype).requires_grad_() for _ in range(9)]
        found.append(torch.stack(reads(residual, sources)))
        weights = torch.randn(found[-1].shape, generator=generator, dtype=dtype)
        given = [*sources, *residual.parameters()]
        slopes.append(torch.autograd.grad((found[-1] * weights).sum(), given))
    assert (found[0] - found[1]).abs().max() < tolerance * found[0].abs().max()
    for ours, theirs in zip(*slopes, strict=True):
        assert (ours - theirs).abs().max() <= gradient * max(1.0, ours.abs().max().item())


def test_two_phases_give_the_logits_of_one(build, config, tokens):
    plain = build("block-attnres:S=3", jitter=0.3)
    phased = copy_residual(build("two-phase-attnres:S=3", like=plain), plain)
    assert (plain(tokens) - phased(tokens)).abs().max() < 1e-5


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_the_weights_of_two_phases_are_rebuilt_from_their_statistics(build, config, tokens, scale):
    """They are those of the plain design, also where logits of hundreds would overflow without the common maximum."""
    plain = build("block-attnres:S=3", jitter=0.3)
    phased = copy_residual(build("two-phase-attnres:S=3", like=plain), plain)
    weights = {0: [], 1: []}
    for place, model in enumerate((plain, phased)):
        for mixer in model.residual.mix:
            with torch.no_grad():
                mixer.query.mul_(scale)
            mixer.weights.register_forward_hook(
                lambda module, inputs, alpha, place=place: weights[place].append(alpha)
            )
    sources = [torch.randn(2, 5, 24) for _ in range(9)]
    for model in (plain, phased):
        assert all(torch.isfinite(read).all() for read in reads(model.residual, sources))
    assert len(weights[0]) == len(weights[1]) == 9
    for ours, theirs in zip(weights[0], weights[1], strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(ours, theirs, atol=2e-6 if scale == 1 else 1e-3)


def test_finished_blocks_are_read_once_a_block(build, tokens):
    """Phase 1 runs where a block begins: 3 blocks and the final read, not 9 targets."""
    model = build("two-phase-attnres:S=3", jitter=0.3)
    calls = []
    whole = model.residual._phase_one

    def counted(finished, block):
        calls.append(len(finished))
        return whole(finished, block)

    model.residual._phase_one = counted
    model(tokens)
    assert calls == [1, 2, 3, 4]
