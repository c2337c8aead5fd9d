"""How the bytes of one row are laid out, in memory and in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.specification import ArraySpec, array_key

Array = npt.NDArray[Any]
_DTYPES = ("f2", "f4", "f8", "i8")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One array's place in a row; `offset` in bytes."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def key(self) -> str:
        return array_key(self.name)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The fields of a stream's rows: ``step``, ``wall_time``, then the arrays, wide types first.

    So every field is aligned, since a row's size is a multiple of 8.
    """

    stream: str
    fields: tuple[Field, ...]
    row_bytes: int

    @classmethod
    def of(cls, stream: str, arrays: Iterable[ArraySpec]) -> Schema:
        wanted: list[tuple[str, tuple[str, ...], tuple[int, ...], str]] = [
            ("step", (), (), "i8"),
            ("wall_time", (), (), "f8"),
        ]
        # Arrays that are rounded alike lie together, so that one operation rounds them all.
        declared = sorted(
            arrays, key=lambda array: (-np.dtype(array.dtype).itemsize, array.mantissa_bits or 0)
        )
        wanted += [(array.name, array.dims, array.shape, array.dtype) for array in declared]
        fields, offset = [], 0
        for name, dims, shape, dtype in wanted:
            field = Field(name=name, dims=tuple(dims), shape=tuple(shape), dtype=dtype, offset=offset)
            fields.append(field)
            offset += field.nbytes
        return cls(stream=stream, fields=tuple(fields), row_bytes=-(-offset // 8) * 8)

    def column(
        self, field: Field, rows: Any, *, count: int, start: int = 0, stride: int | None = None
    ) -> Array:
        """Return a view [count, ...] of one field of `count` rows that lie in the buffer `rows`.

        `start` is the first row's position in bytes, `stride` the distance of two rows (default: no gap).
        """
        kind = np.dtype(field.dtype).newbyteorder("<")
        inner = _strides(field.shape, kind)
        return np.ndarray(
            (count, *field.shape),
            kind,
            buffer=rows,
            offset=start + field.offset,
            strides=(self.row_bytes if stride is None else stride, *inner),
        )

    def blank(self) -> npt.NDArray[np.uint8]:
        """Return the bytes of a row in which nothing is known: NaN everywhere."""
        row = np.zeros(self.row_bytes, np.uint8)
        for field in self.fields:
            self.column(field, row, count=1)[...] = np.nan if field.dtype != "i8" else 0
        return row

    def to_json(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "row_bytes": self.row_bytes,
            "fields": [[f.name, list(f.dims), list(f.shape), f.dtype, f.offset] for f in self.fields],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        """Build from what `to_json` wrote; ValueError when fields do not fit into a row."""
        try:
            size = int(data["row_bytes"])
            fields = tuple(
                Field(
                    name=str(name),
                    dims=tuple(dims),
                    shape=tuple(map(int, shape)),
                    dtype=dtype,
                    offset=int(offset),
                )
                for name, dims, shape, dtype, offset in data["fields"]
            )
            schema = cls(stream=str(data["stream"]), fields=fields, row_bytes=size)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"a log's schema cannot be read ({error!r})") from None
        for field in fields:
            fits = (
                field.dtype in _DTYPES
                and len(field.dims) == len(field.shape)
                and all(axis > 0 for axis in field.shape)
                and 0 <= field.offset <= size - field.nbytes
            )
            if not fits:
                raise ValueError(f"a log's schema puts {field.name!r} where it does not fit")
        if [field.name for field in fields[:2]] != ["step", "wall_time"]:
            raise ValueError("a log's schema does not begin with step and wall_time")
        return schema


def _strides(shape: tuple[int, ...], kind: np.dtype[Any]) -> tuple[int, ...]:
    strides, size = [], kind.itemsize
    for axis in reversed(shape):
        strides.append(size)
        size *= axis
    return tuple(reversed(strides))
