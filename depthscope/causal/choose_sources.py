"""Which kind of depth sources a model has, held to one forward of it."""

from __future__ import annotations

from depthscope.causal.batch import Batch
from depthscope.causal.depth_sources import DepthSources
from depthscope.causal.error import CausalError
from depthscope.causal.mixer_sources import MixerSources
from depthscope.causal.outer_sources import OuterSources
from depthscope.causal.stream_sources import StreamSources
from depthscope.causal.subject import Subject
from depthscope.marks import DepthAxis

TOLERANCE = 1e-3
"""Largest difference between a read and the sum of its sources, as a share of the read's norm."""
HALF = 2e-2
"""The same where activations have 16 bits."""


def depth_sources(subject: Subject, batch: Batch) -> DepthSources:
    """Return the sources of a model's reads: of its depth mixers, else its outer state, else its residual stream.

    Raises:
        CausalError: a read is not the sum of its sources in one forward, or the design has none of the three.
    """
    axis = subject.axis
    if axis.mixers:
        sources: DepthSources = MixerSources(axis)
    elif axis.outer:
        if axis.outer_end is None:
            raise CausalError(f"{axis.design}: it is not known where the last outer state is read")
        sources = OuterSources(axis, subject.plain)
    else:
        _refuse_other_streams(axis)
        sources = StreamSources(axis)
    _hold_to_a_forward(subject, sources, batch)
    return sources


def _refuse_other_streams(axis: DepthAxis) -> None:
    bent = [sublayer.name for sublayer in axis.sublayers if not sublayer.additive]
    unseen = axis.embedding is None or axis.final_read is None
    if bent or unseen:
        why = (
            f"the write of {bent[0]} is not simply added"
            if bent
            else "its embedding or final read is not seen"
        )
        raise CausalError(
            f"{axis.design}: a read is no sum of sources that could be cut one by one ({why}); knock out whole "
            "sublayers instead"
        )


def _hold_to_a_forward(subject: Subject, sources: DepthSources, batch: Batch) -> None:
    targets = [target for target in range(len(sources.target_names)) if sources.readable(target)]
    ports = [
        port
        for target in targets
        for port in (*sources.source_ports(target), *sources.weights(target), sources.read(target))
    ]
    _, values = subject.look(batch.args, batch.kwargs, ports)
    for target in targets:
        found = values[sources.read(target)]
        rebuilt = sources.total(target, [values[port] for port in sources.source_ports(target)], values)
        difference = float((rebuilt - found).norm() / found.norm().clamp_min(1e-30))
        if not difference <= (HALF if found.element_size() < 4 else TOLERANCE):
            raise CausalError(
                f"{sources.axis.design}: what {sources.target_names[target]} reads differs from the sum of its sources "
                f"by {difference:.2g} of its size, so a cut would not be what it says"
            )
