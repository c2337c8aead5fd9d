"""The drawn numbers as a tidy table: one row a value, beside it everything that says which value it is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures import Labelled, Panel, is_log_stored, is_signed
from depthscope.quantities import QUANTITIES

_FIRST = ("panel", "run", "run_id", "quantity", "transform", "unit", "value")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Tidy rows: one value each, as texts."""

    columns: tuple[str, ...]
    rows: Iterator[list[str]]
    total: int
    """Rows that there are, also of a table that holds only the first."""


def csv_bytes(panels: Mapping[str, Panel]) -> bytes:
    """Return a CSV of all panels, UTF-8: panel, run, run_id, quantity, transform, unit, value, then coordinates.

    `transform` says what was made of the recorded quantity before it was drawn: ``exp``, ``log2 ratio to a``.

    Numbers are written with as many digits as make them the same number again, a missing one as nothing. A
    curve that belongs to no run, as a reference, has an empty run_id.
    """
    table = table_of(panels)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return out.getvalue().encode()


def table_of(panels: Mapping[str, Panel], *, most: int | None = None) -> Table:
    """Return the rows of all panels, at most the first `most` of them; `csv_bytes` says what their columns are."""
    coordinates: dict[str, None] = {}
    parts = []
    left = math.inf if most is None else most
    total = 0
    for name, panel in panels.items():
        data = panel.data
        curves = [(data.names.get(run, run), run, array) for run, array in data.arrays.items()]
        curves += [(f"reference {text}", "", array) for text, array in data.references.items()]
        for label, run, array in curves:
            kept = int(min(array.size, left))
            left -= kept
            total += array.size
            columns = _columns(array, kept)
            coordinates |= dict.fromkeys(columns)
            quantity = str(array.name or data.attributes["quantity"])
            head = [
                name,
                label,
                run,
                quantity,
                _transform(array, quantity, data),
                _unit(array, quantity, data),
            ]
            parts.append((head, _texts(array.values, kept), columns, kept))
    return Table(columns=(*_FIRST, *coordinates), rows=_rows(parts, list(coordinates)), total=total)


def _rows(
    parts: list[tuple[list[str], list[str], dict[str, list[str]], int]], coordinates: list[str]
) -> Iterator[list[str]]:
    for head, values, columns, kept in parts:
        empty = [""] * kept
        filled = [columns.get(name, empty) for name in coordinates]
        for value, *labels in zip(values, *filled, strict=True):
            yield [*head, value, *labels]


def _transform(array: xr.DataArray, quantity: str, data: Labelled) -> str:
    """Return what the value is of the recorded quantity, nothing where it is the quantity itself."""
    mode = data.attributes.get("mode")
    if quantity not in QUANTITIES:
        return ""
    if array.attrs.get("control") and quantity == "state_rms":
        return "root of summed squares of write_rms"
    steps = ["exp"] if is_log_stored(quantity) else []
    if mode == "ratio":
        steps.append("ratio to first")
    if mode == "difference":
        name = data.attributes.get("reference") or data.names.get(data.attributes["baseline"], "the baseline")
        steps.append(f"{'difference' if is_signed(quantity) else 'log2 ratio'} to {name}")
    return ", ".join(steps)


def _unit(array: xr.DataArray, quantity: str, data: Labelled) -> str:
    """Return the unit of the values as they are shown: of a stored logarithm, that of its exponential."""
    mode = data.attributes.get("mode")
    if mode == "ratio":
        return "1"
    if mode == "difference" and quantity in QUANTITIES and not is_signed(quantity):
        return "log2(ratio)"
    known = QUANTITIES.get(quantity)
    unit = str(array.attrs.get("units") or (known.units if known is not None else ""))
    return unit.removeprefix("log(").removesuffix(")") if unit.startswith("log(") else unit


def _columns(array: xr.DataArray, kept: int) -> dict[str, list[str]]:
    """Return each dim's index and each coordinate, as texts, for the first `kept` values of `array` in C order."""
    columns = {}
    for dim, size in array.sizes.items():
        if dim not in array.coords:
            columns[str(dim)] = _texts(_along(np.arange(size), (str(dim),), array), kept)
    for name, coordinate in array.coords.items():
        dims = tuple(str(dim) for dim in coordinate.dims)
        column = f"{name}_name" if name in _FIRST else str(name)
        columns[column] = _texts(_along(coordinate.values, dims, array), kept)
    return columns


def _along(values: np.ndarray[Any, Any], dims: tuple[str, ...], array: xr.DataArray) -> np.ndarray[Any, Any]:
    """Repeat values over `dims` along the other dims of `array`."""
    order = [dims.index(str(dim)) for dim in array.dims if dim in dims]
    shape = [size if dim in dims else 1 for dim, size in array.sizes.items()]
    return np.broadcast_to(np.transpose(values, order).reshape(shape), array.shape)


def _texts(values: np.ndarray[Any, Any], kept: int) -> list[str]:
    return list(_written(np.asarray(values).ravel()[:kept]))


def _written(values: np.ndarray[Any, Any]) -> Iterator[str]:
    for value in values.tolist():
        if isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, float):
            yield "" if math.isnan(value) else repr(value)
        else:
            yield str(value)
