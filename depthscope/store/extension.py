"""Arrays that come later: a metric or a validation set that a stream did not know when the run was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from depthscope.quantities import QUANTITIES
from depthscope.store.specification import ArraySpec, array_key


class Extension:
    """Declares arrays for one stream, so that no name means two things in its group.

    xarray refuses a group in which an array is called like a dim.
    """

    def __init__(self, sizes: Mapping[str, int], labels: Iterable[str], arrays: Iterable[str]) -> None:
        """Take the sizes of the known dims, and the names of coordinates and arrays."""
        self._sizes = dict(sizes)
        self._labels = set(labels)
        self._arrays = set(arrays)

    def declare(self, name: str, value: Any) -> ArraySpec:
        """Return an array for `value`: f8 for a number, f4 for an array of numbers.

        Its dims are those of the quantity of that name where they fit, else its own. ValueError when the name
        or the value cannot be stored.
        """
        if name in self._labels or name in self._sizes:
            raise ValueError("is a dim or a coordinate of the stream; choose another name")
        values = np.asarray(value)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"is a {type(value).__name__}, not a number or an array of numbers")
        known = QUANTITIES.get(name)
        dims = known.dims if known is not None else ()
        if [self._sizes.get(dim) for dim in dims] != list(values.shape):
            dims = tuple(self._free(f"{array_key(name)}_{axis}") for axis in range(values.ndim))
        array = ArraySpec(name=name, dims=dims, shape=values.shape, dtype="f4" if values.ndim else "f8")
        self._arrays.add(name)
        self._sizes |= dict(zip(dims, values.shape, strict=True))
        return array

    def _free(self, dim: str) -> str:
        while dim in self._labels or dim in self._arrays or dim in self._sizes:
            dim += "_"
        return dim


def default_attributes(name: str) -> dict[str, str]:
    """Return what is known of an array by its name."""
    if name == "step":
        return {"long_name": "optimizer steps completed before the row"}
    if name == "wall_time":
        return {"long_name": "Unix time at which the row was accepted", "units": "s"}
    if name in QUANTITIES:
        return QUANTITIES[name].attributes()
    return {"long_name": name}
