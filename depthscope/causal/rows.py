"""Several interventions in one forward, each on its own rows of a repeated batch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from depthscope.causal.batch import Batch, logits_of, token_losses
from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Change, Edit, Intervention
from depthscope.causal.subject import Subject
from depthscope.causal.values import Values
from depthscope.marks import Port


def losses_under(subject: Subject, batch: Batch, interventions: Sequence[Intervention]) -> Tensor:
    """Return the losses of each token under each intervention, in nats, float64 [interventions, batch, time]."""
    args, kwargs = batch.repeated(len(interventions))
    output, _ = subject.look(args, kwargs, (), side_by_side(interventions, batch.sequences))
    targets = batch.targets.repeat(len(interventions), 1)
    losses = token_losses(logits_of(output), targets)
    return losses.view(len(interventions), batch.sequences, -1)


def side_by_side(interventions: Sequence[Intervention], sequences: int) -> Intervention:
    """Return one intervention in which the k-th acts on the k-th `sequences` rows alone.

    CausalError where one of several skips a module: a module that is not run gives nothing for any row.
    """
    if len(interventions) == 1:
        return interventions[0]
    skipping = [intervention.name for intervention in interventions if intervention.skips]
    if skipping:
        raise CausalError(
            f"{skipping[0]}: a module that is skipped is skipped for the whole batch; measure it alone"
        )
    parts: dict[Port, list[tuple[int, Edit]]] = {}
    for place, intervention in enumerate(interventions):
        for edit in intervention.edits:
            parts.setdefault(edit.port, []).append((place * sequences, edit))
    edits = tuple(
        Edit(
            port=port,
            needs=tuple(dict.fromkeys(need for _, edit in each for need in edit.needs)),
            change=_on_rows([(start, edit.change) for start, edit in each], sequences),
        )
        for port, each in parts.items()
    )
    return Intervention(name=f"{len(interventions)} interventions", edits=edits)


def _on_rows(changes: Sequence[tuple[int, Change]], size: int) -> Change:
    def on_rows(value: Tensor, values: Values) -> Tensor:
        if value.shape[0] % size:
            raise CausalError(
                f"a value of shape {tuple(value.shape)} has no rows of {size} sequences to change"
            )
        changed = value.clone()
        for start, change in changes:
            part = changed.narrow(0, start, size)
            part.copy_(change(part, values.rows(start, size)))
        return changed

    return on_rows
