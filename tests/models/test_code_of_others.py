"""What our designs compute is what code that nobody here wrote computes, with equal weights.

Where a definition differs, the test says how, brings both to the point where they agree, and shows that they differ
elsewhere. Only the modules themselves are loaded: from the file of flash-linear-attention, since importing its package
needs Triton.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import distribution
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from depthscope.models.altup import PredictCorrect
from depthscope.models.mhc import ManifoldConnection, sinkhorn
from depthscope.models.mixer import DepthMixer, MixerOptions
from depthscope.models.norm import rms_scale

WIDTH, EPS = 24, 1e-6
ATTNRES = ["full-attnres", "block-attnres:S=3", "block-attnres:boundaries=1+4"]


def flash_linear_attention(path: str) -> ModuleType:
    """Load one file of the installed package ``fla-core``."""
    file = distribution("fla-core").locate_file(path)
    spec = importlib.util.spec_from_file_location("fla_naive", str(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def mixers(build, tokens, request):
    """Every depth mixer of a decoder away from its start, with the sources that it took and the read that it gave."""
    model = build(request.param, jitter=0.3)
    taken = []
    for mixer in model.residual.mix:
        mixer.register_forward_hook(lambda module, args, read: taken.append((module, args[0], read)))
    with torch.no_grad():
        model(tokens)
    return taken


def random_tensors(*shapes, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


# --- flash-linear-attention: naive_attnres ------------------------------------------------------------------


@pytest.mark.parametrize("mixers", ATTNRES, indirect=True)
def test_depth_attention_is_that_of_flash_linear_attention(mixers):
    """No difference in definition: RMSNorm with a gain on the keys, values as they are, no scale."""
    naive_attnres = flash_linear_attention("fla/ops/attnres/naive.py").naive_attnres
    assert max(len(sources) for _, sources, _ in mixers) > 2
    for mixer, sources, read in mixers:
        theirs, weights = naive_attnres(
            mixer.query, sources, mixer.key_norm.weight, rms_eps=mixer.weights.eps, return_weights=True
        )
        assert torch.allclose(read, theirs, rtol=1e-5, atol=1e-6)
        ours = mixer.weights(torch.stack(sources), mixer.query, mixer.key_norm.weight)
        assert torch.allclose(ours, weights, rtol=1e-5, atol=1e-6)


def test_its_gradients_are_those_of_flash_linear_attention():
    naive_attnres = flash_linear_attention("fla/ops/attnres/naive.py").naive_attnres
    mixer = DepthMixer(WIDTH, EPS, 3, MixerOptions())
    *sources, query, gain, toward = random_tensors(*[(2, 5, WIDTH)] * 3, (WIDTH,), (WIDTH,), (2, 5, WIDTH))
    found = []
    for way in ("ours", "theirs"):
        leaves = [tensor.clone().requires_grad_() for tensor in (*sources, query, 1 + 0.3 * gain)]
        *values, w, g = leaves
        if way == "ours":
            read = torch.func.functional_call(mixer, {"query": w, "key_norm.weight": g}, (tuple(values),))
        else:
            read = naive_attnres(w, values, g, rms_eps=EPS)
        (read * toward).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sinkhorn_is_that_of_flash_linear_attention():
    """Theirs works on logarithms; both scale columns first and rows last."""
    naive_sinkhorn = flash_linear_attention("fla/ops/utils/sinkhorn/naive.py").naive_sinkhorn
    (logits,) = random_tensors((5, 4, 4))
    assert torch.allclose(sinkhorn(3 * logits), naive_sinkhorn(3 * logits), rtol=1e-5, atol=1e-6)


# --- transformers: Inkling2BlockAttentionResidual -----------------------------------------------------------


@pytest.mark.parametrize("mixers", ATTNRES, indirect=True)
def test_depth_attention_is_that_of_inkling_2_on_normalised_sources(mixers):
    """Inkling 2 divides logits by sqrt(d), has no gain on keys, and normalises values too: h = sum alpha v / rms(v)."""
    from transformers.models.inkling2.modeling_inkling2 import Inkling2BlockAttentionResidual

    config = SimpleNamespace(hidden_size=WIDTH, _attn_implementation="eager")
    theirs = Inkling2BlockAttentionResidual(config)
    for mixer, sources, read in mixers[1:]:
        with torch.no_grad():
            theirs.query.copy_(WIDTH**0.5 * mixer.query * mixer.key_norm.weight)
            (expected,) = theirs(torch.stack(sources[:-1], dim=-2), sources[-1])
            normalised = [source * rms_scale(source, EPS) for source in sources]
            # A norm leaves a normalised source as it is, but for eps against a mean square of 0.01.
            assert torch.allclose(mixer(normalised), expected, rtol=1e-3, atol=1e-3)
            weights = mixer.weights(torch.stack(sources), mixer.query, mixer.key_norm.weight)
            mixed = torch.einsum("nbt,nbtd->btd", weights, torch.stack(normalised))
            assert torch.allclose(mixed, expected, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(read, expected, rtol=1e-2)


# --- transformers: DeepseekV4HyperConnection ----------------------------------------------------------------


def hyper_connections(n, eps):
    """Theirs, and ours with its weights."""
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection

    config = SimpleNamespace(hc_mult=n, hc_sinkhorn_iters=20, hc_eps=eps, rms_norm_eps=EPS, hidden_size=WIDTH)
    theirs = DeepseekV4HyperConnection(config)
    fn, base, scale = random_tensors(theirs.fn.shape, theirs.base.shape, theirs.scale.shape)
    ours = ManifoldConnection(n, WIDTH, 0, lite=False, eps=EPS, std=0.02)
    with torch.no_grad():
        theirs.fn.copy_(0.1 * fn)
        theirs.base.copy_(base)
        theirs.scale.copy_(scale)
        maps = theirs.fn.split([n, n, n * n])
        biases = theirs.base.split([n, n, n * n])
        ours.alpha.copy_(theirs.scale)
        for name, weight, bias in zip(("read", "write"), maps, biases, strict=False):
            getattr(ours, f"{name}_map").copy_(weight.T)
            getattr(ours, f"{name}_bias").copy_(bias)
        # Theirs is applied transposed.
        ours.mix_map.copy_(maps[2].view(n, n, -1).transpose(0, 1).reshape(n * n, -1).T)
        ours.mix_bias.copy_(biases[2].view(n, n).T.reshape(-1))
    return theirs, ours


@pytest.mark.parametrize("n", [3, 4])  # of 2, doubly stochastic matrices are symmetric
@pytest.mark.parametrize(("eps", "tolerance"), [(0.0, 1e-5), (1e-6, 1e-4)])
def test_mhc_is_that_of_deepseek_v4(n, eps, tolerance):
    """DeepSeek-V4 adds hc_eps to H_pre and to every sum of Sinkhorn-Knopp, and its norm has no gain; its end is
    a weighted sum of the streams (`DeepseekV4HyperHead`) where ours is the plain sum of the paper's streams.
    """
    theirs, ours = hyper_connections(n, eps)
    streams, output = random_tensors((2, 5, n, WIDTH), (2, 5, WIDTH), seed=9)
    with torch.no_grad():
        post, comb, collapsed = theirs(streams)
        state = streams.flatten(-2)
        assert torch.allclose(ours.read(state), collapsed, rtol=tolerance, atol=tolerance)
        # Columns of comb are scaled last, which are the rows of what is applied.
        applied = comb.transpose(-1, -2)
        assert torch.allclose(ours.mixing_weights(streams), applied, rtol=tolerance, atol=tolerance)
        assert not torch.allclose(ours.mixing_weights(streams), comb, rtol=1e-2, atol=1e-2)
        expected = post.unsqueeze(-1) * output.unsqueeze(-2) + applied @ streams
        found = ours.write(state, output).unflatten(-1, (n, WIDTH))
        assert torch.allclose(found, expected, rtol=tolerance, atol=10 * tolerance)


# --- transformers: Gemma3nTextAltUp -------------------------------------------------------------------------


@pytest.mark.parametrize("computed", [0, 2])
def test_altup_is_that_of_gemma_3n_token_by_token(computed):
    """Gemma 3n's coefficients depend on the token, so each token has a connection of its own here: p = I + its
    prediction coefficients, g = 1 + its correction coefficients. It also feeds its layer with the prediction of the
    computed block; Algorithm 1 of AltUp, and ours, with the block itself.
    """
    from transformers.models.gemma3n.modeling_gemma3n import Gemma3nTextAltUp

    K = 3
    config = SimpleNamespace(
        hidden_size=WIDTH,
        altup_num_inputs=K,
        altup_active_idx=computed,
        altup_coef_clip=None,
        rms_norm_eps=EPS,
    )
    theirs = Gemma3nTextAltUp(config).eval()
    x, activated, router = random_tensors((K, 1, 6, WIDTH), (1, 6, WIDTH), (K, WIDTH), seed=4)
    ours = PredictCorrect(K, computed)
    with torch.no_grad():
        theirs.modality_router.weight.copy_(10 * router)
        predictions = theirs.predict(x)
        expected = theirs.correct(predictions, activated)
        before, after = (theirs.compute_router_modalities(v) for v in (x[computed], activated))
        assert before.std(dim=1).min() > 0.1
        for t in range(6):
            ours.prediction.copy_(torch.eye(K) + theirs.prediction_coefs(before[0, t]).view(K, K))
            ours.gain.copy_(1 + theirs.correction_coefs(after[0, t]))
            token = x[:, :, t : t + 1]
            state = torch.cat(tuple(token), dim=-1)
            assert torch.equal(ours.read(state), token[computed])
            predicted = torch.einsum("ij,jbtd->ibtd", ours.prediction, token)
            assert torch.allclose(predicted, predictions[:, :, t : t + 1], rtol=1e-5, atol=1e-5)
            assert not torch.allclose(predicted[computed], token[computed], rtol=1e-2)
            found = ours.write(state, activated[:, t : t + 1] - token[computed])
            found = found.unflatten(-1, (K, WIDTH)).movedim(-2, 0)
            assert torch.allclose(found, expected[:, :, t : t + 1], rtol=1e-5, atol=1e-5)


def test_what_is_loaded_is_not_ours():
    from transformers.models.inkling2.modeling_inkling2 import Inkling2BlockAttentionResidual

    assert issubclass(Inkling2BlockAttentionResidual, nn.Module)
    assert not Inkling2BlockAttentionResidual.__module__.startswith("depthscope")
