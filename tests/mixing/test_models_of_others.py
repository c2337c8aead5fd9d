"""Function mode on models nobody here wrote: tiny, random, and complete to 1e-5."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from transformers.models.inkling2.configuration_inkling2 import Inkling2TextConfig
from transformers.models.inkling2.modeling_inkling2 import Inkling2ForCausalLM

from depthscope.anatomy import Anatomy, inspect_model
from depthscope.marks import DepthAxis, Port, Sublayer
from depthscope.mixing import MixingError, measure_mixing

# transformers warns of itself as it is imported and built.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
SIZES = {
    "vocab_size": 128,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}
TOKENS = torch.randint(1, 120, (2, 12), generator=torch.Generator().manual_seed(0))


def moved(model):
    """Give every gain, bias and query a size of its own."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() <= 1 or "query" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=128, n_embd=48, n_layer=3, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=None
    )
    return transformers.GPT2LMHeadModel(config)


def opt():
    """Its dropout is a function, with a rate above 0."""
    sizes = {name: size for name, size in SIZES.items() if name not in ("num_key_value_heads", "head_dim")}
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(**sizes, ffn_dim=96, word_embed_proj_dim=48, dropout=0.1, pad_token_id=1)
    )


FAMILIES = {
    "Llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)),
    "OLMo-2": lambda: transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**SIZES)),
    "Gemma-2": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**SIZES)),
    "GPT-2": gpt2,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_additive_models_are_complete_with_coefficients_of_one(family):
    torch.manual_seed(0)
    model = moved(FAMILIES[family]())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    mixing = measure_mixing(model, input_ids=TOKENS, use_cache=False)
    assert mixing.way == "functions"
    assert float(mixing["mixing_gap"].max()) < 1e-5
    np.testing.assert_allclose(mixing["mixing_contribution"].sum("origin"), 1.0, atol=1e-5)
    # They write to one stream, and what they write is an origin with its norm and bias.
    coefficient = mixing["mixing_coefficient"].values
    for target in range(7):
        np.testing.assert_allclose(coefficient[target, : target + 1], 1.0, atol=1e-5)
    assert not mixing["mixing_contribution"].values[:, -1].any()
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("training", [False, True])
def test_opt_whose_dropout_is_a_function_is_complete(training):
    torch.manual_seed(0)
    mixing = measure_mixing(moved(opt()).train(training), input_ids=TOKENS, use_cache=False)
    assert float(mixing["mixing_gap"].max()) < 1e-5
    np.testing.assert_allclose(mixing["mixing_contribution"].sum("origin"), 1.0, atol=1e-5)
    # Attention writes [batch, time, d] to one stream; the MLP of OPT takes and gives tokens without a batch axis.
    np.testing.assert_allclose(mixing["mixing_coefficient"].values[6, [0, 1, 3, 5]], 1.0, atol=1e-5)


def inkling():
    return Inkling2ForCausalLM(
        Inkling2TextConfig(
            vocab_size=128,
            unpadded_vocab_size=128,
            hidden_size=48,
            num_hidden_layers=6,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=12,
            swa_num_attention_heads=4,
            swa_num_key_value_heads=2,
            swa_head_dim=12,
            sliding_window_size=8,
            d_rel=8,
            rel_extent=16,
            moe_intermediate_size=32,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_layers_per_attn_res_block=2,
            bos_token_id=None,
            eos_token_id=0,
            attn_implementation="eager",
        )
    )


def inkling_axis(model):
    """Attention and MLP of every decoder layer; attention of the full layers takes its first read, the query's."""
    sublayers = []
    for place, layer in enumerate(model.model.layers):
        path = f"model.layers.{place}"
        norm = "input_layernorm" if hasattr(layer, "input_layernorm") else "q_input_layernorm"
        for part, read in (("attention", norm), ("mlp", "post_attention_layernorm")):
            sublayers.append(
                Sublayer(
                    index=len(sublayers) + 1,
                    name=f"{path} {part}",
                    kind="attention" if part == "attention" else "mlp",
                    transformer_block=place + 1,
                    residual_block=place // 2 + 1,
                    read=Port(module=f"{path}.{read}", side="input"),
                    write=Port(module=f"{path}.post_{part}_convolution", side="output"),
                    state=None,
                    additive=False,
                    fresh=None,
                    parameters=(),
                )
            )
    axis = DepthAxis(
        design="inkling2",
        embedding=Port(module="model.layers.0", side="input"),
        final_read=Port(module="model.norm", side="input"),
        sublayers=tuple(sublayers),
    )
    return Anatomy(model="Inkling2", axis=axis, found_by="explicit", settled=True)


def test_block_attention_residuals_of_inkling_are_complete():
    torch.manual_seed(0)
    model = moved(inkling())
    mixing = measure_mixing(model, input_ids=TOKENS, use_cache=False, anatomy=inkling_axis(model))
    assert float(mixing["mixing_gap"].max()) < 1e-5
    np.testing.assert_allclose(mixing["mixing_contribution"].sum("origin"), 1.0, atol=1e-5)
    # Its depth attention reads normed states: every origin of one block has one factor, alpha over the block's rms.
    coefficient = mixing["mixing_coefficient"].values[-1]
    assert np.isfinite(coefficient[:-1]).all()
    np.testing.assert_allclose(coefficient[1:5], coefficient[1], rtol=1e-4)
    assert abs(coefficient[5] - coefficient[1]) > 1e-3


def test_blocks_that_are_not_on_the_axis_are_a_reason():
    torch.manual_seed(0)
    model = moved(inkling())
    found = inspect_model(model, {"input_ids": TOKENS})
    with pytest.raises(MixingError, match=r"\d of 6 transformer blocks are not on the depth axis"):
        measure_mixing(model, input_ids=TOKENS, anatomy=found)
