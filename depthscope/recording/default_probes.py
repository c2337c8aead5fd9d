"""The probes that look where the user names none."""

from __future__ import annotations

from torch import nn

from depthscope.anatomy import parameter_groups
from depthscope.marks import DepthAxis
from depthscope.probes import (
    DepthAttention,
    FreshShare,
    Gradient,
    HeadMaps,
    Interfaces,
    Magnitude,
    Mixing,
    OuterState,
    Output,
    ParameterGradient,
    PrenormState,
    Probe,
    StreamGain,
    Streams,
    checked_probes,
    registered_probes,
)


def default_probes(axis: DepthAxis, model: nn.Module) -> tuple[Probe, ...]:
    """Return the probes that apply to every design, and those of installed packages; each finds its own sites."""
    names = tuple(name for name, _ in model.named_parameters())
    places = {name: place for place, name in enumerate(names)}
    groups = {
        group: tuple(places[name] for name in members)
        for group, members in parameter_groups(axis, model).items()
    }
    gradients = ParameterGradient(parameters=names, groups=groups)
    heads = max((mixer.heads for mixer in axis.mixers), default=1)
    own = (
        Magnitude(),
        FreshShare(),
        Gradient(),
        gradients,
        DepthAttention(),
        HeadMaps(sources=len(axis.source_names), heads=heads),
        Mixing(),
        OuterState(),
        Interfaces(),
        Output(),
        PrenormState(),
        Streams(),
        StreamGain(),
    )
    return checked_probes((*own, *registered_probes()))
