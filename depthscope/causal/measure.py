"""The sweeps by name: from a model and batches to the effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from torch import nn

from depthscope.anatomy import Anatomy
from depthscope.causal.batch import Batch
from depthscope.causal.choose_sources import depth_sources
from depthscope.causal.plan import Kind, Plan, family_plan, outer_plan, reset_plan, source_plan, sublayer_plan
from depthscope.causal.prepare import prepare
from depthscope.causal.replacing import Mode, default_mode
from depthscope.causal.subject import Subject
from depthscope.causal.sweep import Advance, sweep


def measure_effects(
    model: nn.Module,
    batches: Iterable[Any],
    kind: Kind = "sources",
    mode: Mode | None = None,
    *,
    anatomy: Anatomy | None = None,
    path: Path | None = None,
    about: Mapping[str, Any] | None = None,
    advance: Advance = lambda finished, total: None,
) -> xr.Dataset:
    """Measure what interventions of one kind do to a model's loss.

    Kinds: ``sources`` cuts each source of each target for that target alone; ``families`` the same for the embedding,
    the target's own block and all older sources; ``sublayers`` replaces each write for all that comes after it;
    ``outer`` each read, write and the extra features of a wide outer state; ``resets`` carries the sum of each residual
    block on into the next.

    Args:
        model: a trained model; it is copied and left as it is.
        batches: held-out data, each as `depthscope.causal.batch_of` takes it. The interval is over batches.
        kind: what is done.
        mode: what stands in place of what is cut; None: ``renormalise`` for the weights of depth mixers, else ``zero``.
        anatomy: see `Subject.of`.
        path: the store to write, and to go on with after an interruption, usually
            ``depthscope.store.sweep_path(run, name)``. None keeps none.
        about: attributes of the store; give ``step`` and ``checkpoint``.
        advance: told the rows finished and all of them.

    Returns:
        ``effect`` (target, source) in nats a token, positive where the cut hurts, its ``effect_interval``, and what
        they are made of; see `depthscope.causal.sweep`.

    Raises:
        CausalError: the model does not allow it, or `path` lies beside a run of another model; the message says why.
    """
    listed, subject = prepare(model, batches, anatomy, path)
    plan = plan_of(subject, listed[0], kind, mode)
    return sweep(subject, listed, plan, path=path, about=about, advance=advance)


def plan_of(subject: Subject, batch: Batch, kind: Kind, mode: Mode | None) -> Plan:
    """Return the interventions of one kind for a model; `batch` is what its sources are checked on."""
    chosen = mode or default_mode(kind, bool(subject.axis.mixers))
    if kind == "sublayers":
        return sublayer_plan(subject.axis, chosen)
    if kind == "outer":
        return outer_plan(subject.axis, subject.width, chosen)
    if kind == "resets":
        return reset_plan(subject.axis)
    sources = depth_sources(subject, batch)
    return source_plan(sources, chosen) if kind == "sources" else family_plan(sources, chosen)


def ablate_sources(
    model: nn.Module, batches: Iterable[Any], mode: Mode | None = None, **options: Any
) -> xr.Dataset:
    """Cut each depth source of each target for that target alone; `measure_effects` of kind ``sources``."""
    return measure_effects(model, batches, "sources", mode, **options)


def knock_out(model: nn.Module, batches: Iterable[Any], mode: Mode = "zero", **options: Any) -> xr.Dataset:
    """Replace the write of each sublayer for all that comes after it; `measure_effects` of kind ``sublayers``."""
    return measure_effects(model, batches, "sublayers", mode, **options)
