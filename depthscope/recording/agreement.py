"""What the ranks must agree on before a row is merged, and which shards each of them holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from depthscope.marks import DepthAxis
from depthscope.probes import Probe, SiteKind
from depthscope.quantities import DepthLayout
from depthscope.recording.schedule import Schedule
from depthscope.recording.shards import Keys, key


def schema(
    axis: DepthAxis,
    layout: DepthLayout,
    probes: Sequence[Probe],
    every: Mapping[str, Schedule],
    parameters: Iterable[str],
) -> dict[str, Any]:
    """Return, under the words an error uses for it, what must be the same on all ranks."""
    return {
        "its design": axis.design,
        "its sublayers": layout.layer_names,
        "its depth axis": repr(axis),
        "its layout": repr(layout),
        "its parameters": tuple(parameters),
        "its probes": tuple((probe.name, tuple(sorted(probe.merges.items()))) for probe in probes),
        "every": {stream: schedule.every for stream, schedule in every.items()},
        "dense_until": {stream: schedule.dense_until for stream, schedule in every.items()},
    }


def own_keys(axis: DepthAxis, parameters: Mapping[str, nn.Parameter]) -> dict[SiteKind, list[int]]:
    """Return which shards this rank holds, for each site kind at which parameters are looked at."""
    keys = {name: key(parameter) for name, parameter in parameters.items()}
    queries = [0] * max((mixer.target for mixer in axis.mixers), default=0)
    for mixer in axis.mixers:
        if mixer.query is not None:
            queries[mixer.target - 1] = keys[mixer.query]
    return {"parameters": list(keys.values()), "query": queries}


def keys_of_all(everyone: Sequence[Mapping[SiteKind, Sequence[int]]]) -> dict[SiteKind, Keys]:
    """Return the shards that every rank holds, [ranks, entries] for each site kind."""
    return {kind: np.array([keys[kind] for keys in everyone], dtype=np.int64) for kind in everyone[0]}
