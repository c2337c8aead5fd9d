"""From one flat vector of moments to fp64 arrays over sites, on the host."""

from __future__ import annotations

import math
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
    """Where one moment stands among all of them, and which of its entries are visited."""

    rule: Merge
    kind: SiteKind
    shape: tuple[int, ...]
    part: slice
    visited: npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class _Repeated:
    """Entries of one moment that several visits share."""

    rule: Merge
    found: Places
    put: Places


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
        self._targets: dict[tuple[int, str], _Target] = {}
        self._repeated: list[_Repeated] = []
        single: list[tuple[Places, Places]] = []
        start = 0
        for key, places in found.items():
            taken, destinations = np.concatenate(places), np.concatenate(put[key])
            rule, size = probes[key[0]].merges[key[1]], math.prod(shapes[key])
            visited = np.zeros(size, dtype=bool)
            visited[destinations] = True
            self._targets[key] = _Target(
                rule=rule,
                kind=kinds[key],
                shape=shapes[key],
                part=slice(start, start + size),
                visited=visited.reshape(shapes[key]),
            )
            if len(np.unique(destinations)) < len(destinations):
                self._repeated.append(_Repeated(rule=rule, found=taken, put=start + destinations))
            else:
                single.append((taken, start + destinations))
            start += size
        self._size = start
        self._found = np.concatenate([taken for taken, _ in single] or [np.zeros(0, dtype=np.intp)])
        self._put = np.concatenate([places for _, places in single] or [np.zeros(0, dtype=np.intp)])

    def merge(self, flat: Array) -> dict[tuple[int, str], MergedMoment]:
        """Return, by probe and name, every moment that was left somewhere."""
        every = np.full(self._size, np.nan)
        every[self._put] = flat[self._found]
        for shared in self._repeated:
            every[shared.put] = _START[shared.rule]
            MERGE[shared.rule].at(every, shared.put, flat[shared.found])
        return {
            key: MergedMoment(
                values=every[target.part].reshape(target.shape),
                visited=target.visited,
                rule=target.rule,
                kind=target.kind,
            )
            for key, target in self._targets.items()
        }


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
    if kind in ("outer_block", "outer_read", "gates"):
        return layout.outer_blocks
    if kind in ("embedding", "final_read", "outer_direct", "stream_product", "interfaces", "parameters"):
        return 1
    return layout.layers
