"""How alike the states at different depths are."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from depthscope.causal.batch import Batch
from depthscope.causal.reads import reads
from depthscope.causal.subject import Subject


def block_influence(subject: Subject, batch: Batch) -> Tensor:
    """Return 1 - mean over tokens of cos(what a transformer block reads, what the next reads), float64 [blocks].

    On reads, as in ShortGPT (arXiv 2403.03853) where a read is the stream; the last block's next read is the output's.
    """
    states, _ = reads(subject, batch)
    blocks = [sublayer.transformer_block for sublayer in subject.axis.sublayers]
    firsts = [place for place, block in enumerate(blocks) if place == 0 or blocks[place - 1] != block]
    entered = [states[place].double() for place in (*firsts, len(blocks))]
    similar = [
        torch.nn.functional.cosine_similarity(before, after, dim=-1).mean()
        for before, after in pairwise(entered)
    ]
    return 1 - torch.stack(similar)


def linear_cka(subject: Subject, batch: Batch) -> Tensor:
    """Return the linear CKA between the states at all depths over the batch's tokens, float64 [L + 1, L + 1].

    ||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F) with features centred over tokens (Kornblith et al., arXiv 1905.00414).
    """
    states, _ = reads(subject, batch)
    return cka([state.flatten(0, -2) for state in states])


def cka(features: list[Tensor]) -> Tensor:
    """Return the linear CKA between all pairs of [tokens, features]."""
    centred = [each.double() - each.double().mean(0) for each in features]
    own = torch.stack([(each.T @ each).norm() for each in centred])
    cross = torch.stack(
        [torch.stack([(one.T @ other).square().sum() for other in centred]) for one in centred]
    )
    return cross / (own[:, None] * own[None])
