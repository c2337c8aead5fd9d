"""The drawn numbers as a tidy table: one row a value, beside it everything that says which value it is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures import Panel

_FIRST = ("panel", "run", "run_id", "quantity", "value")


def csv_bytes(panels: Mapping[str, Panel]) -> bytes:
    """Return a CSV of all panels, UTF-8: panel, run, run_id, quantity, value, then coordinates.

    Numbers are written with as many digits as make them the same number again, a missing one as nothing. A
    curve that belongs to no run, as a reference, has an empty run_id.
    """
    coordinates: dict[str, None] = {}
    parts = []
    for name, panel in panels.items():
        data = panel.data
        curves = [(data.names.get(run, run), run, array) for run, array in data.arrays.items()]
        curves += [(f"reference {text}", "", array) for text, array in data.references.items()]
        for label, run, array in curves:
            columns = _columns(array)
            coordinates |= dict.fromkeys(columns)
            quantity = str(array.name or data.attributes["quantity"])
            parts.append(((name, label, run, quantity), array, columns))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_FIRST, *coordinates])
    for head, array, columns in parts:
        empty = [""] * array.size
        filled = [columns.get(name, empty) for name in coordinates]
        for value, *labels in zip(_texts(array.values), *filled, strict=True):
            writer.writerow([*head, value, *labels])
    return out.getvalue().encode()


def _columns(array: xr.DataArray) -> dict[str, list[str]]:
    """Return each dim's index and each coordinate, as texts, one for each value of `array` in C order."""
    columns = {}
    for dim, size in array.sizes.items():
        if dim not in array.coords:
            columns[str(dim)] = _texts(_along(np.arange(size), (str(dim),), array))
    for name, coordinate in array.coords.items():
        dims = tuple(str(dim) for dim in coordinate.dims)
        column = f"{name}_name" if name in _FIRST else str(name)
        columns[column] = _texts(_along(coordinate.values, dims, array))
    return columns


def _along(values: np.ndarray[Any, Any], dims: tuple[str, ...], array: xr.DataArray) -> np.ndarray[Any, Any]:
    """Repeat values over `dims` along the other dims of `array`."""
    order = [dims.index(str(dim)) for dim in array.dims if dim in dims]
    shape = [size if dim in dims else 1 for dim, size in array.sizes.items()]
    return np.broadcast_to(np.transpose(values, order).reshape(shape), array.shape)


def _texts(values: np.ndarray[Any, Any]) -> list[str]:
    return list(_written(np.asarray(values).ravel()))


def _written(values: np.ndarray[Any, Any]) -> Iterator[str]:
    for value in values.tolist():
        if isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, float):
            yield "" if math.isnan(value) else repr(value)
        else:
            yield str(value)
