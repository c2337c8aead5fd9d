"""What every measurement begins with: batches, the copy of the model, and that they and the run belong together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from depthscope.anatomy import Anatomy
from depthscope.causal.batch import Batch, batches_of
from depthscope.causal.belonging import refuse_other_run
from depthscope.causal.subject import Subject
from depthscope.causal.vocabulary import refuse_unknown_tokens


def prepare(
    model: nn.Module, batches: Iterable[Any], anatomy: Anatomy | None, path: Path | None
) -> tuple[tuple[Batch, ...], Subject]:
    """Return all batches on the model's device, and its copy; CausalError where one does not fit the other."""
    listed = batches_of(batches, model)
    subject = Subject.of(model, listed[0].args, listed[0].kwargs, anatomy=anatomy)
    refuse_other_run(path, subject)
    for batch in listed[1:]:  # the subject was made on the first
        refuse_unknown_tokens(subject.model, subject.axis, batch.args, batch.kwargs)
    return listed, subject
