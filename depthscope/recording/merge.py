"""From one flat vector of moments to fp64 arrays over sites, on the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.probes import Array, Merge, Probe, Site, SiteKind
from depthscope.quantities import DepthLayout

Places: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One probe at one site: which moments it leaves there, and how many numbers each holds (0: a scalar)."""

    probe: int
    site: Site
    moments: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class MergedMoment:
    """One moment over all positions of its site kind; entries nobody visited are NaN and not `visited`."""

    values: Array
    visited: npt.NDArray[np.bool_]
    rule: Merge
    kind: SiteKind


@dataclass(frozen=True, kw_only=True)
class _Target:
    """Where the numbers of one moment stand in the flat vector and in its array."""

    rule: Merge
    kind: SiteKind
    shape: tuple[int, ...]
    found: Places
    put: Places
    repeated: bool


class MergePlan:
    """The fixed index work for one sequence of visits, made once and used every step that repeats it."""

    def __init__(self, visits: Sequence[Visit], probes: Sequence[Probe], layout: DepthLayout) -> None:
        found: defaultdict[tuple[int, str], list[Places]] = defaultdict(list)
        put: defaultdict[tuple[int, str], list[Places]] = defaultdict(list)
        shapes: dict[tuple[int, str], tuple[int, ...]] = {}
        kinds: dict[tuple[int, str], SiteKind] = {}
        offset = 0
        for wanted in (0, 1):  # the scalars of all visits stand before the first vector
            for visit in visits:
                site = visit.site
                for name, size in visit.moments:
                    if min(size, 1) != wanted:
                        continue
                    key, numbers = (visit.probe, name), max(1, size)
                    over_sources = bool(size) and size == len(site.columns)
                    columns = np.array(site.columns if over_sources else range(numbers))
                    extent = _extent(site.kind, layout) if over_sources else numbers
                    positions = positions_of(site.kind, layout)
                    shapes[key] = (positions, extent) if size else (positions,)
                    kinds[key] = site.kind
                    found[key].append(np.arange(offset, offset + numbers))
                    put[key].append(site.position * extent + columns)
                    offset += numbers
        self.length = offset
        self.targets: dict[tuple[int, str], _Target] = {}
        for key, places in found.items():
            destinations = np.concatenate(put[key])
            self.targets[key] = _Target(
                rule=probes[key[0]].merges[key[1]],
                kind=kinds[key],
                shape=shapes[key],
                found=np.concatenate(places),
                put=destinations,
                repeated=len(np.unique(destinations)) < len(destinations),
            )

    def merge(self, flat: Array) -> dict[tuple[int, str], MergedMoment]:
        """Return, by probe and name, every moment that was left somewhere."""
        merged = {}
        for key, target in self.targets.items():
            array = np.full(target.shape, np.nan).reshape(-1)
            visited = np.zeros(array.shape, dtype=bool)
            visited[target.put] = True
            values = flat[target.found]
            if target.repeated:
                array[target.put] = _START[target.rule]
                MERGE[target.rule].at(array, target.put, values)
            else:
                array[target.put] = values
            merged[key] = MergedMoment(
                values=array.reshape(target.shape),
                visited=visited.reshape(target.shape),
                rule=target.rule,
                kind=target.kind,
            )
        return merged


_START: dict[Merge, float] = {"sum": 0.0, "max": -np.inf, "min": np.inf, "norm": -np.inf}
MERGE: dict[Merge, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "norm": np.maximum}
"""How two values of one moment become one, within a rank and, but for norms, across ranks."""


def by_probe(moments: Mapping[tuple[int, str], MergedMoment]) -> dict[int, dict[str, Array]]:
    """Return the moments' values as each probe's `finish` takes them."""
    values: dict[int, dict[str, Array]] = defaultdict(lambda: defaultdict(_nowhere))
    for (probe, name), moment in moments.items():
        values[probe][name] = moment.values
    return values


def _nowhere() -> Array:
    """A moment that no site of this model leaves: one NaN, which spreads over whatever it meets."""
    return np.full(1, np.nan)


def _extent(kind: str, layout: DepthLayout) -> int:
    """Number of entries on the axis that the columns of a site lie on."""
    return len(layout.origin_names if kind == "replay" else layout.source_names)


def positions_of(kind: str, layout: DepthLayout) -> int:
    """Number of entries on the axis of a site kind."""
    if kind in ("mixer", "query"):
        return len(layout.sources)
    if kind == "replay":
        return len(layout.mixing)
    if kind in ("outer_block", "gates"):
        return layout.outer_blocks
    if kind in ("embedding", "final_read", "outer_direct", "parameters"):
        return 1
    return layout.layers
