"""A model that is not the one a run was recorded with: refused by name, so that shapes never mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from depthscope.quantities import DepthLayout
from depthscope.store.errors import SchemaError
from depthscope.store.existing import Existing
from depthscope.store.specification import Coordinate, StreamSpec

_LONGEST = 80


def refuse_changes(
    existing: Existing,
    *,
    layout: DepthLayout | None,
    coordinates: Sequence[Coordinate],
    streams: Sequence[StreamSpec],
) -> None:
    """Raise SchemaError when what is declared contradicts what the run holds.

    New streams and arrays are no contradiction: their earlier rows are unknown. Neither are arrays that are
    not declared any more.
    """
    difference = _of_layout(existing.record.layout, layout) if layout is not None else ""
    difference = difference or _of_arrays(existing, streams) or _of_labels(existing, coordinates, streams)
    if difference:
        raise SchemaError(
            existing.path,
            f"{existing.path} was recorded with another model: {difference}. Record to another path, or resume with "
            "the model of that run",
        )


def _of_layout(old: DepthLayout, new: DepthLayout) -> str:
    if old.layers != new.layers:
        return f"it has {old.layers} sublayers, this model {new.layers}"
    for field in fields(DepthLayout):
        before, now = getattr(old, field.name), getattr(new, field.name)
        if before != now:
            return f"{field.name} is {_shown(before)} in the run and {_shown(now)} now"
    return ""


def _of_arrays(existing: Existing, streams: Sequence[StreamSpec]) -> str:
    for spec in streams:
        if spec.name not in existing.commit.streams:
            continue
        known = {array.name: array for array in existing.arrays(spec.name)}
        for array in spec.arrays:
            old = known.get(array.name, array)
            before, now = (old.dims, old.shape, old.dtype), (array.dims, array.shape, array.dtype)
            if before != now:
                return (
                    f"{spec.name}/{array.name} has rows of {_row(*before)} in the run and of {_row(*now)} now"
                )
    return ""


def _of_labels(existing: Existing, coordinates: Sequence[Coordinate], streams: Sequence[StreamSpec]) -> str:
    for group, given in (("", coordinates), *((spec.name, spec.coordinates) for spec in streams)):
        if group and group not in existing.commit.streams:
            continue
        known = existing.snapshot.labels(group) if given else {}
        for entry in given:
            if entry.name not in known:
                return f"it has no coordinate {entry.name!r}"
            before, now = known[entry.name][1].tolist(), list(entry.values)
            if before != now:
                return f"{entry.name} is {_shown(before)} in the run and {_shown(now)} now"
    return ""


def _row(dims: tuple[str, ...], shape: tuple[int, ...], dtype: str) -> str:
    sizes = ", ".join(f"{dim} {size}" for dim, size in zip(dims, shape, strict=True))
    return f"({sizes}) {dtype}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
