"""The logit lens: what the model would say if a state in the middle were its last."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from depthscope.causal.batch import Batch, logits_of, token_losses
from depthscope.causal.intervention import Change, Edit, Intervention
from depthscope.causal.memory import interventions_at_once
from depthscope.causal.reads import depth_names, read_ports, reads
from depthscope.causal.rows import side_by_side
from depthscope.causal.subject import Subject
from depthscope.causal.values import Values


@dataclass(frozen=True, kw_only=True)
class LogitLens:
    """What each depth would say; depth l is the state after l sublayers, 0 the embedding, L the output itself."""

    names: tuple[str, ...]
    loss: Tensor
    """-log p(target) in nats, [L + 1, batch, time]."""
    kl: Tensor
    """KL(output || depth) in nats, [L + 1, batch, time]."""
    agreement: Tensor
    """Share of the output's k most likely tokens that are among the depth's, [L + 1, batch, time]."""
    top: Tensor
    """The depth's most likely token, int64 [L + 1, batch, time]."""


def logit_lens(subject: Subject, batch: Batch, *, k: int = 5) -> LogitLens:
    """Send the state at each depth through the model's own final norm and head (nostalgebraist's logit lens).

    The state takes the place of the final read, so whatever the model does after it acts: norm, head, soft caps. With
    depth mixers it is the mixed state that the next sublayer reads.

    Args:
        subject: the model.
        batch: the tokens.
        k: of the agreement.
    """
    states, output = reads(subject, batch)
    final = logits_of(output)
    at_once = interventions_at_once(subject, batch)
    rows = []
    for start in range(0, len(states), at_once):
        part = [_instead(subject, state) for state in states[start : start + at_once]]
        args, kwargs = batch.repeated(len(part))
        output, _ = subject.look(args, kwargs, (), side_by_side(part, batch.sequences))
        rows += [_compared(logits, final, batch, k) for logits in logits_of(output).chunk(len(part))]
    loss, kl, agreement, top = (torch.stack(each) for each in zip(*rows, strict=True))
    return LogitLens(names=depth_names(subject.axis), loss=loss, kl=kl, agreement=agreement, top=top)


def _instead(subject: Subject, state: Tensor) -> Intervention:
    return Intervention(
        name="logit lens", edits=(Edit(port=read_ports(subject.axis)[-1], change=_constant(state)),)
    )


def _constant(state: Tensor) -> Change:
    def change(value: Tensor, values: Values) -> Tensor:
        return state.to(value.dtype)

    return change


def _compared(logits: Tensor, final: Tensor, batch: Batch, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    known, guess = (
        torch.log_softmax(each.to(torch.promote_types(each.dtype, torch.float32)), -1)
        for each in (final, logits)
    )
    kl = (known.exp() * (known - guess)).sum(-1)
    best, guessed = (each.topk(k, dim=-1).indices for each in (final, logits))
    shared = (best.unsqueeze(-1) == guessed.unsqueeze(-2)).any(-1)
    return token_losses(logits, batch.targets), kl.double(), shared.double().mean(-1), guessed[..., 0]
