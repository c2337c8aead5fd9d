"""Distant sources: what the targets of one record weight most beyond their newest source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

LEAST_DISTANCE = 2
LEAST_SOURCES = 4


@dataclass(frozen=True, kw_only=True)
class DistantSource:
    """One cell at one step; whether it lasts is another question (`depthscope.analysis.list_skip_paths`)."""

    target: int
    target_name: str
    source: int
    source_name: str
    distance: int
    weight: float
    contribution: float
    times_uniform: float


def distant_sources(
    array: xr.DataArray, sources: Sequence[Sequence[int]], *, most: int
) -> list[DistantSource]:
    """Return the cells of largest weight in one array of `depth_attention_data`, at most `most`.

    `sources` holds for each target of the run the columns it can read. Distance 1 is the newest of them; only
    distances of 2 and more count, of targets with at least four sources.
    """
    weight, contribution = (np.asarray(array.sel(part=part).values) for part in ("weight", "contribution"))
    found = []
    for row, target in enumerate(array["target"].values.tolist()):
        columns = sorted(sources[target - 1], reverse=True)
        if len(columns) < LEAST_SOURCES:
            continue
        for distance, column in enumerate(columns, start=1):
            if distance >= LEAST_DISTANCE and np.isfinite(weight[row, column]):
                found.append((float(weight[row, column]), row, target, column, distance, len(columns)))
    found.sort(key=lambda entry: -entry[0])
    return [
        DistantSource(
            target=target,
            target_name=str(array["target_name"].values[row]),
            source=column,
            source_name=str(array["source_name"].values[column]),
            distance=distance,
            weight=value,
            contribution=float(contribution[row, column]),
            times_uniform=value * count,
        )
        for value, row, target, column, distance, count in found[:most]
    ]
