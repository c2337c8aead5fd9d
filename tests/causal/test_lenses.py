"""The logit lens, direct logit attribution, block influence and CKA against hand computation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.causal import (
    CausalError,
    Subject,
    attribute_logits,
    batch_of,
    block_influence,
    depth_sources,
    linear_cka,
    logit_lens,
    losses_under,
    measure_lenses,
)
from depthscope.causal.frozen_norm import freeze
from depthscope.causal.similarity import cka
from depthscope.store import open_sweep
from tests.causal.models import attnres_by_hand, batch, losses, rms_norm, sum_of, trained, whole


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=3, n_embd=32, n_head=2, vocab_size=29, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    return away_from_its_start(GPT2LMHeadModel(config))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=3,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=29,
        max_position_embeddings=8,
    )
    return away_from_its_start(LlamaForCausalLM(config))


def away_from_its_start(model: nn.Module) -> nn.Module:
    """Return the model in double precision with biases and gains that are not 0 and 1."""
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def final_norm(model: Any) -> nn.Module:
    return model.transformer.ln_f if hasattr(model, "transformer") else model.model.norm


@pytest.mark.parametrize("build", [gpt2, llama])
def test_the_logit_lens_applies_the_final_norm_and_the_head_to_each_state(build: Callable[[], Any]) -> None:
    model, given = build(), batch()
    lens = logit_lens(Subject.of(model, given.args), given, k=3)
    with torch.no_grad():
        states = model(*given.args, output_hidden_states=True).hidden_states[
            :-1
        ]  # the last is normed already
        final = torch.log_softmax(model(*given.args).logits, -1)
        for block, state in enumerate(states):
            guess = torch.log_softmax(model.lm_head(final_norm(model)(state)), -1)
            depth = 2 * block
            torch.testing.assert_close(lens.loss[depth], losses(guess, given), rtol=0, atol=1e-9)
            kl = (final.exp() * (final - guess)).sum(-1)
            torch.testing.assert_close(lens.kl[depth], kl, rtol=0, atol=1e-9)
            assert torch.equal(lens.top[depth], guess.argmax(-1))
            for place in np.ndindex(*given.targets.shape):
                best, guessed = (set(each[place].topk(3).indices.tolist()) for each in (final, guess))
                assert lens.agreement[depth][place] == len(best & guessed) / 3
    assert len(lens.names) == 7
    torch.testing.assert_close(lens.kl[-1], torch.zeros_like(lens.kl[-1]), rtol=0, atol=1e-12)
    assert (lens.agreement[-1] == 1).all()


def test_with_depth_mixers_the_lens_sees_the_mixed_state() -> None:
    model, given = trained("block-attnres:S=2"), batch()
    mixes: list[Tensor] = []

    def remember(row: int, alpha: Tensor, values: list[Tensor]) -> Tensor:
        mixes.append(whole(row, alpha, values))
        return mixes[-1]

    attnres_by_hand(model, given, remember)
    lens = logit_lens(Subject.of(model, given.args), given)
    for depth, mix in enumerate(mixes):
        with torch.no_grad():
            guess = model.head(rms_norm(mix, model.norm.weight, model.config.norm_eps))
        torch.testing.assert_close(lens.loss[depth], losses(guess, given), rtol=0, atol=1e-9)


@pytest.mark.parametrize("build", [gpt2, llama])
def test_attributions_sum_to_the_logit_and_equal_each_write_through_the_frozen_norm(
    build: Callable[[], Any],
) -> None:
    model, given = build(), batch()
    found = attribute_logits(Subject.of(model, given.args), given)
    norm, kept = final_norm(model), []
    watched = [
        model.get_submodule(name)
        for name, _ in model.named_modules()
        if name.endswith((".attn", ".self_attn", ".mlp"))
    ]
    first = model.transformer.h[0] if hasattr(model, "transformer") else model.model.layers[0]
    hooks = [first.register_forward_pre_hook(lambda module, args: kept.append(args[0]))]
    hooks += [
        module.register_forward_hook(
            lambda module, args, output: kept.append(output[0] if isinstance(output, tuple) else output)
        )
        for module in watched
    ]
    with torch.no_grad():
        logits = model(*given.args).logits
    for hook in hooks:
        hook.remove()
    assert len(kept) == 7
    x = sum_of(kept)
    directions = model.lm_head.weight[given.targets]
    for part, write in zip(found.parts[:-1], kept, strict=True):
        if isinstance(norm, nn.LayerNorm):
            scaled = (write - write.mean(-1, keepdim=True)) / (
                x.var(-1, correction=0, keepdim=True) + norm.eps
            ).sqrt()
        else:
            scaled = write / (x.square().mean(-1, keepdim=True) + norm.variance_epsilon).sqrt()
        expected = (scaled * norm.weight * directions).sum(-1)
        torch.testing.assert_close(part, expected, rtol=0, atol=1e-6)  # Llama norms in float32
    logit = logits.gather(-1, given.targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(found.logits, logit, rtol=0, atol=0)
    torch.testing.assert_close(found.parts.sum(0), logit, rtol=0, atol=1e-6)
    assert (found.parts[-1].abs().max() > 0.01) == isinstance(norm, nn.LayerNorm)  # its bias


@pytest.mark.parametrize(
    "design",
    [
        "prenorm",
        "layerscale",
        "full-attnres",
        "block-attnres:S=2",
        "two-phase-attnres:S=2",
        "hires:B=2,n=2",
        "hires:B=2,phi=increment",
    ],
)
def test_attributions_sum_to_the_logit_in_single_precision_too(design: str) -> None:
    model, given = trained(design).float(), batch()
    found = attribute_logits(Subject.of(model, given.args), given)
    with torch.no_grad():
        logit = model(*given.args).gather(-1, given.targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(found.parts.sum(0), logit, rtol=0, atol=1e-4)
    assert found.names[0] == "embedding"
    assert found.names[-1] == "constant"


def test_with_depth_mixers_a_part_is_the_weighed_source() -> None:
    model, given = trained("block-attnres:S=2"), batch()
    last: list[tuple[Tensor, list[Tensor]]] = []

    def remember(row: int, alpha: Tensor, values: list[Tensor]) -> Tensor:
        last.append((alpha, values))
        return whole(row, alpha, values)

    attnres_by_hand(model, given, remember)
    alpha, values = last[-1]
    found = attribute_logits(Subject.of(model, given.args), given)
    scale = (whole(4, alpha, values).square().mean(-1, keepdim=True) + model.config.norm_eps).sqrt()
    for part, weight, source in zip(found.parts[:-1], alpha, values, strict=True):
        expected = (
            weight[..., None] * source / scale * model.norm.weight * model.head.weight[given.targets]
        ).sum(-1)
        torch.testing.assert_close(part, expected, rtol=0, atol=1e-6)  # Llama norms in float32


def test_logits_that_are_not_linear_in_the_final_norm_are_refused() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    config = Gemma2Config(
        num_hidden_layers=2,
        hidden_size=16,
        intermediate_size=32,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        vocab_size=29,
        final_logit_softcapping=1.0,
    )
    subject = Subject.of(away_from_its_start(Gemma2ForCausalLM(config)), batch().args)
    with pytest.raises(CausalError, match="soft cap"):
        attribute_logits(subject, batch())


@pytest.mark.parametrize("centred", [False, True])
def test_a_frozen_norm_is_told_by_what_it_does(centred: bool) -> None:
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    norm = nn.LayerNorm(8) if centred else nn.RMSNorm(8)
    norm = norm.double()
    nn.init.normal_(norm.weight)
    frozen = freeze(norm, x, "n")
    assert frozen.centred == centred
    parts = [x / 3, x / 2, x / 6]
    with torch.no_grad():
        torch.testing.assert_close(sum_of([frozen(part) for part in parts]) + frozen.constant, norm(x))
    with pytest.raises(CausalError, match="neither an RMSNorm nor a LayerNorm"):
        freeze(nn.Tanh(), x, "n")


@pytest.mark.parametrize("build", [gpt2, llama])
def test_cuts_on_hugging_face_models_equal_ordinary_hooks(build: Callable[[], Any]) -> None:
    model, ids = build(), batch().args[0]
    given = batch_of({"input_ids": ids, "labels": ids})
    subject = Subject.of(model, given.args, given.kwargs)
    sources = depth_sources(subject, given)
    norm, kept = subject.axis.sublayers[4].read, []
    assert norm is not None
    write = model.get_submodule(subject.axis.sublayers[1].write.module)
    hooks = [
        write.register_forward_hook(lambda module, args, output: kept.append(output)),
        model.get_submodule(norm.module).register_forward_pre_hook(lambda module, args: (args[0] - kept[0],)),
    ]
    with torch.no_grad():
        expected = losses(model(ids).logits[:, :-1], batch_of(ids))
    for hook in hooks:
        hook.remove()
    (found,) = losses_under(subject, given, [sources.cut(4, [2])])
    torch.testing.assert_close(found[:, :-1], expected, rtol=0, atol=1e-9)
    assert found[:, -1].isnan().all()  # nothing follows the last token


def test_block_influence_is_one_minus_the_cosine_of_what_neighbouring_blocks_read() -> None:
    model, given = llama(), batch()
    with torch.no_grad():
        states = model(*given.args, output_hidden_states=True).hidden_states
        last: list[Tensor] = []
        handle = final_norm(model).register_forward_pre_hook(lambda module, args: last.append(args[0]))
        model(*given.args)
        handle.remove()
    entered = [*states[:-1], last[0]]
    expected = []
    for before, after in pairwise(entered):
        cosine = (before * after).sum(-1) / (before.norm(dim=-1) * after.norm(dim=-1))
        expected.append(1 - cosine.mean())
    found = block_influence(Subject.of(model, given.args), given)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)


def test_cka_of_single_features_is_their_squared_correlation_and_rotations_do_not_count() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 50, 1, generator=generator, dtype=torch.float64)
    correlation = np.corrcoef(x[:, 0].numpy(), y[:, 0].numpy())[0, 1]
    np.testing.assert_allclose(cka([x, y]).numpy(), [[1, correlation**2], [correlation**2, 1]], atol=1e-12)
    wide = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64))
    np.testing.assert_allclose(cka([wide, 3 * wide @ rotation + 1])[0, 1], 1, atol=1e-12)
    model, given = trained("prenorm"), batch()
    found = linear_cka(Subject.of(model, given.args), given)
    np.testing.assert_allclose(found.diagonal(), 1, atol=1e-12)
    np.testing.assert_allclose(found, found.T, atol=1e-12)


def test_lenses_are_kept_beside_a_run_and_go_on(tmp_path: Path) -> None:
    model, path, told = trained("block-attnres:S=2"), tmp_path / "causal" / "lens.zarr", []
    found = measure_lenses(model, [batch(0), batch(1)], path=path, advance=lambda *each: told.append(each))
    assert told == [(0, 2), (1, 2), (2, 2)]
    lens = logit_lens(Subject.of(model, batch().args), batch(1))
    np.testing.assert_allclose(found["lens_kl"].values[:, 1], lens.kl.mean((1, 2)), atol=1e-12)
    assert found["depth_name"].values.tolist() == [
        "embedding",
        "1 attention",
        "2 MLP",
        "3 attention",
        "4 MLP",
    ]
    assert found["part_name"].values.tolist() == ["embedding", "block 1", "block 2", "constant"]
    before = {file: file.stat().st_mtime_ns for file in path.rglob("c.*")}
    assert measure_lenses(model, [batch(0), batch(1)], path=path).equals(found)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("c.*")} == before
    assert open_sweep(path).kind == "lens"
    bent = measure_lenses(trained("postnorm"), [batch()])
    assert "not simply added" in bent.attrs["no_attribution"]
    assert "logit_attribution" not in bent
