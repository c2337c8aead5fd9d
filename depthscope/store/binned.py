"""Which arrays of a stream the pyramid holds, and what their bins are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout
from depthscope.store.bins import bin_dtype, empty_bins
from depthscope.store.chain import Chain, edge_chain, stats_chain
from depthscope.store.derive import DERIVED, derive, inputs
from depthscope.store.level import END, START, bins_field
from depthscope.store.schema import Field

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Binned:
    """One array of the pyramid: a recorded one, a derived one, or the first or last step of each bin."""

    name: str
    row: Field
    """How one of its rows is laid out."""
    parts: tuple[str, ...]
    """The recorded arrays that its rows come from."""

    @property
    def is_edge(self) -> bool:
        return self.name in (START, END)

    @property
    def bins(self) -> Field:
        """How a bin is laid out."""
        if self.is_edge:
            return Field(name=self.name, dims=(), shape=(), dtype="i8", offset=0)
        return bins_field(self.name, self.row)

    def values(self, rows: Mapping[str, Array], layout: DepthLayout) -> Array:
        """Return its rows, made of those of its parts."""
        if self.is_edge or self.parts == (self.name,):
            return rows[self.parts[0]]
        return derive(self.name, rows, layout)

    def chain(self, chunk: int) -> Chain:
        """Return a chain without rows; a chunk holds `chunk` bins."""
        if self.is_edge:
            return edge_chain(chunk, last=self.name == END)
        return stats_chain(self.row.shape, self.row.dtype, bin_dtype(self.row.dtype), chunk)

    def lacking(self, rows: int) -> Array:
        """Return `rows` rows in which the array is not there."""
        return np.full((rows, *self.row.shape), 0 if self.is_edge else np.nan, self.row.dtype)

    def lacking_bins(self, count: int, size: int) -> Array:
        """Return bins of `size` rows in which the array is not there."""
        if self.is_edge:
            return np.zeros(count, "i8")
        return empty_bins(count, self.row.shape, bin_dtype(self.row.dtype), size)


def binned_arrays(fields: Iterable[Field]) -> list[Binned]:
    """Return the arrays of the pyramid of a stream with these fields."""
    known = {field.name: field for field in fields}
    found = [Binned(name=edge, row=known["step"], parts=("step",)) for edge in (START, END)]
    found += [Binned(name=name, row=field, parts=(name,)) for name, field in known.items() if name != "step"]
    for name in DERIVED:
        needed = inputs(name)
        if name not in known and all(part in known and known[part].dims == ("layer",) for part in needed):
            found.append(Binned(name=name, row=known[needed[0]], parts=needed))
    return found
