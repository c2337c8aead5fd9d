"""Small trained models in double precision, and forwards of them written out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from depthscope.causal import Batch, batch_of
from depthscope.models import BlockAttnRes, Decoder, HiRes
from depthscope.testing.small_model import small_model

Weigh = Callable[[int, Tensor, list[Tensor]], Tensor]
"""(target from 0, alpha [n, batch, time], sources) -> the read."""


def trained(design: str) -> Decoder:
    """Return a decoder of 4 sublayers after some training, its queries far from their start."""
    model = small_model(design).model.double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.residual.named_parameters():
            if "query" in name or "weight" in name:
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter += 0.3 * noise
    return model


def tokens(seed: int = 0, sequences: int = 3) -> Tensor:
    """Return ids [sequences, 7] of the small models' vocabulary."""
    return torch.randint(0, 29, (sequences, 7), generator=torch.Generator().manual_seed(seed))


def batch(seed: int = 0, sequences: int = 3) -> Batch:
    return batch_of(tokens(seed, sequences))


def losses(logits: Tensor, given: Batch) -> Tensor:
    """Return -log p(target) [batch, time]."""
    return -F.log_softmax(logits, -1).gather(-1, given.targets.unsqueeze(-1)).squeeze(-1)


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain


def whole(target: int, alpha: Tensor, sources: list[Tensor]) -> Tensor:
    """The mix as it is."""
    return sum_of([weight[..., None] * source for weight, source in zip(alpha, sources, strict=True)])


@torch.no_grad()
def attnres_by_hand(model: Decoder, given: Batch, weigh: Weigh = whole) -> Tensor:
    """Return the logits of an AttnRes decoder: sums inside blocks, softmax over the sums, for each read anew."""
    design, eps = model.residual, model.config.norm_eps
    assert isinstance(design, BlockAttnRes)

    def read(target: int, sources: list[Tensor]) -> Tensor:
        mixer = design.mix[target]
        keys = [rms_norm(source, mixer.key_norm.weight, eps) @ mixer.query for source in sources]
        return weigh(target, torch.softmax(torch.stack(keys), 0), sources)

    finished, partial = [model.embedding(given.args[0])], None
    for index, layer in enumerate(model.layers):
        h = read(index, [*finished, *([] if partial is None else [partial])])
        f = layer.sublayer(rms_norm(h, layer.norm.weight, eps))
        partial = f if partial is None else partial + f
        if index + 1 in design.blocks.ends:
            finished, partial = [*finished, partial], None
    return model.head(rms_norm(read(model.config.layers, finished), model.norm.weight, eps))


Carry = Callable[[int, Tensor, list[Tensor]], Tensor]
"""(reader from 0, the outer state, [h_0, W_1 Phi_1, ...]) -> the outer state that this reader sees."""


@torch.no_grad()
def hires_by_hand(model: Decoder, given: Batch, carry: Carry = lambda reader, state, parts: state) -> Tensor:
    """Return the logits of a HiRes decoder."""
    design, eps = model.residual, model.config.norm_eps
    assert isinstance(design, HiRes)
    state = design.E(model.embedding(given.args[0]))
    parts = [state]
    for block in range(len(design.blocks)):
        inner = design.R[block](carry(block, state, parts))
        for index in design.blocks.members(block):
            layer = model.layers[index]
            inner = inner + layer.sublayer(rms_norm(inner, layer.norm.weight, eps))
        parts.append(design.W[block](inner))
        state = rms_norm(state + parts[-1], design.norms[block].weight, eps)
    read = design.H(carry(len(design.blocks), state, parts))
    return model.head(rms_norm(read, model.norm.weight, eps))


@torch.no_grad()
def hooked(model: Decoder, given: Batch, path: str, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the logits of a plain forward in which an ordinary hook changes what the module at `path` gives."""
    handle = model.get_submodule(path).register_forward_hook(lambda module, args, output: change(output))
    try:
        logits: Tensor = model(*given.args)
    finally:
        handle.remove()
    return logits


def sum_of(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum(0)
