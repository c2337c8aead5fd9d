"""What a run records, as its creator declares it: arrays, coordinates and streams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from urllib.parse import quote

import numpy as np

from depthscope.store.codec import Codec

RESERVED = frozenset({"step", "wall_time", "stat", "step_start", "step_end"})
"""Names that every stream has, or that a binned read adds."""

_DTYPES = ("f2", "f4", "f8")
_STREAM = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_LONGEST_KEY = 200


@dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """One recorded array: `dims` and `shape` are those of one row, without ``step``; ``()`` is a scalar.

    ValueError when the name, the dims or the dtype cannot be stored.
    """

    name: str
    dims: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = "f4"
    """f2, f4 or f8: a value that is missing is NaN, so there are no integers. f8 counts exactly to 2**53."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Written beside the array; empty: the attributes of the quantity of this name, if there is one."""
    mantissa_bits: int | None = None
    """Of f4: round to so many of the 23 bits before anything is stored; None keeps all."""

    def __post_init__(self) -> None:
        array_key(self.name)
        if self.name in RESERVED:
            raise ValueError(
                f"an array cannot be called {self.name!r}: every stream has one; choose another name"
            )
        if len(self.dims) != len(self.shape) or len(set(self.dims)) != len(self.dims) or "step" in self.dims:
            raise ValueError(
                f"{self.name}: dims {self.dims} with shape {self.shape}; expected one distinct name per axis of a row"
            )
        if any(size < 1 for size in self.shape):
            raise ValueError(f"{self.name}: shape {self.shape}; leave an array without entries out")
        if self.dtype not in _DTYPES:
            raise ValueError(f"{self.name}: dtype {self.dtype!r}; expected one of {', '.join(_DTYPES)}")
        if self.mantissa_bits is not None and not (self.dtype == "f4" and 1 <= self.mantissa_bits <= 22):
            raise ValueError(
                f"{self.name}: mantissa_bits is {self.mantissa_bits} of {self.dtype}; expected 1 to 22, of f4"
            )

    @property
    def row_bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """Labels along one dim: names or numbers, one per entry."""

    name: str
    dim: str
    values: Sequence[str | int]


@dataclass(frozen=True, kw_only=True)
class StreamSpec:
    """Arrays that get their rows together."""

    name: str
    arrays: Sequence[ArraySpec] = ()
    coordinates: Sequence[Coordinate] = ()
    """Beside those that follow from the layout (`depthscope.store.coordinates`)."""
    chunk_rows: int | None = None
    """Rows between two flushes; None: as many as make a chunk of about 1 MiB an array, at most 1024."""
    every: Any = 1
    """The cadence as plain data, kept for the reader."""
    codec: Codec = field(default_factory=Codec)

    def __post_init__(self) -> None:
        if not _STREAM.fullmatch(self.name):
            raise ValueError(f"a stream cannot be called {self.name!r}; expected letters, digits, - and _")
        if self.name == "pyramid":
            raise ValueError("a stream cannot be called 'pyramid': that group holds the bins of all streams")
        if self.chunk_rows is not None and self.chunk_rows < 1:
            raise ValueError(f"stream {self.name}: chunk_rows is {self.chunk_rows}; expected at least 1")
        names = [array.name for array in self.arrays]
        if len(set(names)) != len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"stream {self.name} declares {double!r} twice")


def array_key(name: str) -> str:
    """Return the folder name of an array: the name itself where it is a plain word, else percent-encoded.

    Metrics are often called ``val/loss``; a slash would make a group of it.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"an array's name is {name!r}; expected a non-empty string")
    key = quote(name, safe="")
    if key.startswith((".", "__")) or key == "zarr.json":
        key = key.replace(".", "%2E").replace("__", "%5F%5F", 1)
    if len(key) > _LONGEST_KEY:
        raise ValueError(f"an array's name of {len(name)} characters is too long: {name[:40]!r}...")
    return key
