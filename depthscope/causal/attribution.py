"""Direct logit attribution: what each source of the last read adds to the logit of a token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from depthscope.causal.batch import LEFT_OUT, Batch, logits_of
from depthscope.causal.choose_sources import depth_sources
from depthscope.causal.error import CausalError
from depthscope.causal.frozen_norm import freeze
from depthscope.causal.subject import Subject

TOLERANCE = 1e-4
"""Largest difference between a logit and the sum of its parts, over the largest logit."""


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Parts that sum to the logit of the token that should follow."""

    names: tuple[str, ...]
    """The sources, then ``constant``: biases of the final norm and the head."""
    parts: Tensor
    """[sources + 1, batch, time]; NaN where no target counts."""
    logits: Tensor
    """The logit itself, [batch, time]."""
    residue: float
    """The largest difference between a logit and the sum of its parts."""


def attribute_logits(subject: Subject, batch: Batch) -> Attribution:
    """Split the logit of each target token into what each source of the final read adds to it.

    Weights of depth mixers and the scales of all norms on the way are held at their values, which makes the way from
    a source to a logit linear. It is the direct path alone: what later sublayers made of the source is theirs.

    Raises:
        CausalError: the parts do not sum to the logit to 1e-4 of the largest, as under a soft cap of the logits; or
            the design has no sources, final norm or head that are known.
    """
    sources = depth_sources(subject, batch)
    last = len(sources.target_names) - 1
    final, head, axis = subject.final_norm, subject.head, subject.axis
    if axis.final_read is None or final is None or head is None:
        raise CausalError(
            f"{axis.design}: its final read, the norm after it and a linear head are not all known"
        )
    needs = (*sources.source_ports(last), *sources.weights(last), axis.final_read)
    output, values = subject.look(batch.args, batch.kwargs, needs)
    norm = freeze(final, values[axis.final_read], "the final norm")
    counted = batch.targets != LEFT_OUT
    targets = batch.targets.where(counted, torch.zeros_like(batch.targets))
    rows = head.weight[targets]
    bias = rows.new_zeros(targets.shape) if head.bias is None else head.bias[targets]
    parts = [(norm(part) * rows).sum(-1) for part in sources.parts(last, values)]
    parts.append((norm.constant * rows).sum(-1) + bias)
    stacked = torch.stack(parts)
    logits = logits_of(output).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    residue = float((stacked.sum(0) - logits)[counted].abs().max())
    if not residue <= TOLERANCE * max(1.0, float(logits[counted].abs().max())):
        raise CausalError(
            f"{axis.design}: the parts of a logit sum to it only to {residue:.2g}; something after the final norm is not "
            "linear, as a soft cap is"
        )
    names = (*(sources.source_names[column] for column in sources.readable(last)), "constant")
    hidden = ~counted
    return Attribution(
        names=names,
        parts=stacked.masked_fill(hidden, float("nan")),
        logits=logits.masked_fill(hidden, float("nan")),
        residue=residue,
    )
