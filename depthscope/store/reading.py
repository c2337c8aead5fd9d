"""From a snapshot to labelled arrays: names, exact rows, bins, derived quantities, the whole tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import QUANTITIES, DepthLayout
from depthscope.store.bins import STATS
from depthscope.store.derive import derive, inputs
from depthscope.store.follow import BadSelection, Follower
from depthscope.store.held import held_entries, holder
from depthscope.store.level import LEVELS
from depthscope.store.screen import ReadBins, Screen
from depthscope.store.snapshot import Recorded, Snapshot
from depthscope.store.specification import array_key

if TYPE_CHECKING:  # A training process never reads: xarray and pandas stay out of it.
    import xarray as xr

Array = npt.NDArray[Any]
Pick = tuple[str, Array]


def readable(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names that `find` knows, recorded ones first; the wall time of rows is not counted.

    ``stream/name`` stands for an array of a stream where the name alone means that of an earlier one; what a stream
    only holds in another array (`depthscope.store.held`) can be asked for so, and is not listed.
    """
    names: dict[str, None] = {}
    for stream in snapshot.streams:
        recorded = [name for name in snapshot.arrays(stream) if name != "wall_time"]
        names |= {f"{stream}/{name}" if name in names else name: None for name in recorded}
    for name in QUANTITIES:
        if name not in names and find(snapshot, name) is not None:
            names[name] = None
    return tuple(names)


def find(snapshot: Snapshot, name: str) -> Recorded | None:
    """Return the array called `name`, of the first stream that has it; ``stream/name`` says which."""
    for stream in snapshot.streams:
        if name in snapshot.arrays(stream):
            return snapshot.arrays(stream)[name]
    stream, _, bare = name.partition("/")
    if bare and stream in snapshot.streams:
        return snapshot.arrays(stream).get(bare) or _held(snapshot, stream, bare)
    needed = inputs(name)
    for stream in snapshot.streams:
        found = snapshot.arrays(stream)
        if needed and all(part in found and found[part].dims == ("layer",) for part in needed):
            return _like(found[needed[0]], name, found[needed[0]].shape)
        if (held := _held(snapshot, stream, name)) is not None:
            return held
    return None


def _held(snapshot: Snapshot, stream: str, name: str) -> Recorded | None:
    """Return the array called `name` that is entries of another one of the stream."""
    holding = snapshot.arrays(stream).get(holder(name))
    if holding is None or holding.dims != ("target", "origin"):
        return None
    held = _like(holding, name, (holding.shape[0] - 1,))
    sample = {key: text for key, text in holding.attributes.items() if key in ("reduction", "sample_tokens")}
    own = {key: text for key, text in held.attributes.items() if key != "token_mask"}
    return replace(held, attributes=own | sample)


def _like(array: Recorded, name: str, shape: tuple[int, ...]) -> Recorded:
    return Recorded(
        name=name,
        stream=array.stream,
        dims=("layer",),
        shape=shape,
        dtype=array.dtype,
        attributes=QUANTITIES[name].attributes(),
    )


def unknown(snapshot: Snapshot, name: str, run: str, missing: dict[str, str]) -> str:
    """Say that there is no such quantity, why, and what there is."""
    names = readable(snapshot)
    if name in missing:
        return f"{name!r} is not in run {run!r}: {missing[name]}. It has {', '.join(names)}"
    close = get_close_matches(name, names, n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"run {run!r} has no {name!r}; {hint}It has {', '.join(names)}"


def read(
    follower: Follower,
    snapshot: Snapshot,
    array: Recorded,
    *,
    start: int | None = None,
    stop: int | None = None,
    layers: Iterable[int] | int | None = None,
    columns: int | None = None,
) -> xr.DataArray:
    """See `Run.read`."""
    import xarray as xr

    steps = follower.steps(snapshot, array.stream)
    low = 0 if start is None else int(np.searchsorted(steps, start, "left"))
    high = len(steps) if stop is None else int(np.searchsorted(steps, stop, "left"))
    high = max(low, high)
    steps = steps[low:high]
    pick = _selection(array, layers)
    coordinates = _coordinates(follower, snapshot, array, pick)
    name, attributes, layout = array.name, dict(array.attributes), follower.record.layout
    for told in ("token_mask", "sample_tokens"):
        if isinstance(attributes.get(told), str) and told in snapshot.commit.notes:
            attributes[told] = snapshot.commit.notes[told]
    if columns is None:
        values = _values(snapshot, array, low, high, pick, layout)
        coordinates["step"] = ("step", steps)
        return xr.DataArray(
            values, dims=("step", *array.dims), coords=coordinates, name=name, attrs=attributes
        )
    binned = _holding(snapshot, array) or array
    screen = Screen(
        lambda begin, end: _values(snapshot, array, begin, end, pick, layout),
        {
            size: (snapshot.bins(binned, level), _bins(snapshot, array, level, pick))
            for level, size in LEVELS.items()
        },
    )
    values, edges = screen.read(low, high, columns)
    first, last = steps[edges[:-1] - low], steps[edges[1:] - low - 1]
    coordinates |= {
        "step": ("step", first),
        "stat": ("stat", list(STATS)),
        "step_start": ("step", first),
        "step_end": ("step", last),
    }
    return xr.DataArray(
        values,
        dims=("step", "stat", *array.dims),
        coords=coordinates,
        name=name,
        attrs=attributes,
    )


def tree(follower: Follower, snapshot: Snapshot) -> xr.DataTree:
    """See `Run.to_datatree`."""
    import xarray as xr

    record = follower.record
    labels = {name: (dim, values) for name, (dim, values) in follower.labels(snapshot, "").items()}
    nodes = {"/": xr.Dataset(coords=labels, attrs={"name": record.name, "id": record.id})}
    for stream in snapshot.streams:
        own = {name: (dim, values) for name, (dim, values) in follower.labels(snapshot, stream).items()}
        variables = {
            array_key(name): (
                ("step", *array.dims),
                snapshot.read(array, 0, snapshot.rows(stream)),
                array.attributes,
            )
            for name, array in snapshot.arrays(stream).items()
        }
        dataset = xr.Dataset(
            variables,
            coords={**own, "step": ("step", follower.steps(snapshot, stream))},
            attrs={"every": snapshot.attributes(stream).get("every", 1)},
        )
        nodes[f"/{stream}"] = dataset.set_coords([name for name in ("wall_time",) if name in variables])
    return xr.DataTree.from_dict(nodes, name=record.name)


def _values(
    snapshot: Snapshot, array: Recorded, start: int, stop: int, pick: Pick | None, layout: DepthLayout
) -> Array:
    recorded, holding = snapshot.arrays(array.stream), _holding(snapshot, array)
    if holding is not None:
        values = held_entries(array.name, snapshot.read(holding, start, stop))
    elif array.name in recorded:
        values = snapshot.read(array, start, stop)
    else:
        parts = {name: snapshot.read(recorded[name], start, stop) for name in inputs(array.name)}
        values = derive(array.name, parts, layout)
    return values if pick is None else values.take(pick[1], axis=1 + array.dims.index(pick[0]))


def _holding(snapshot: Snapshot, array: Recorded) -> Recorded | None:
    """Return the array that `array` is entries of; None where it is recorded itself, or computed."""
    recorded = snapshot.arrays(array.stream)
    return None if array.name in recorded else recorded.get(holder(array.name))


def _bins(snapshot: Snapshot, array: Recorded, level: str, pick: Pick | None) -> ReadBins:
    holding = _holding(snapshot, array)

    def read(start: int, stop: int) -> Array:
        bins = snapshot.read_bins(holding or array, level, start, stop)
        if holding is not None:
            bins = held_entries(array.name, bins)
        return bins if pick is None else bins.take(pick[1], axis=2 + array.dims.index(pick[0]))

    return read


def _selection(array: Recorded, layers: Iterable[int] | int | None) -> Pick | None:
    """Return (dim, indices) of the wanted layers or targets."""
    if layers is None:
        return None
    dim = next((dim for dim in ("layer", "target") if dim in array.dims), None)
    if dim is None:
        raise BadSelection(
            f"{array.name} has dims {array.dims}: there is no layer to select; leave layers out"
        )
    size = array.shape[array.dims.index(dim)]
    numbers = np.atleast_1d(np.asarray([*layers] if isinstance(layers, Iterable) else layers, "i8"))
    if numbers.size and (numbers.min() < 1 or numbers.max() > size):
        raise BadSelection(f"{array.name} has {dim}s 1 to {size}; asked for {numbers.tolist()}")
    return dim, numbers - 1


def _coordinates(
    follower: Follower, snapshot: Snapshot, array: Recorded, pick: Pick | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group in ("", array.stream):
        for label, (dim, values) in follower.labels(snapshot, group).items():
            if dim in array.dims:
                found[label] = (dim, values if pick is None or dim != pick[0] else values[pick[1]])
    return found
