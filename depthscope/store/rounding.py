"""Rows rounded to fewer mantissa bits before they are accepted, so that log, arrays and pyramid hold the same values.

The bits that are dropped become zeros, which compress away: log-normal f4 noise takes 3.5 bytes a number whole, 2.0
with 10 bits. The relative error is at most 2^-(bits + 1), 0.05 % with 10 bits. Ties go to even; NaN and infinities stay, and
a finite number stays finite.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.store.schema import Schema
from depthscope.store.specification import ArraySpec

MANTISSA_BITS = 23
_INFINITY = np.uint32(0x7F800000)
_SIGN = np.uint32(0x80000000)
Region = tuple[int, int, int]
"""The first byte of a row, the byte past the last, and the bits kept in between."""


def regions(schema: Schema, arrays: Iterable[ArraySpec]) -> tuple[Region, ...]:
    """Return where a row is rounded; arrays with the same bits lie side by side (`Schema.of`)."""
    bits = {array.name: array.mantissa_bits for array in arrays}
    found: list[Region] = []
    for kept, fields in groupby(schema.fields, lambda field: bits.get(field.name)):
        if kept is not None:
            together = list(fields)
            found.append((together[0].offset, together[-1].offset + together[-1].nbytes, kept))
    return tuple(found)


def round_row(row: memoryview, where: Iterable[Region]) -> None:
    """Round a row in place."""
    for start, stop, bits in where:
        round_mantissa(np.frombuffer(row[start:stop], "<u4"), bits)


def round_mantissa(numbers: npt.NDArray[Any], bits: int) -> None:
    """Round f4 numbers, given as the integers [n] of their bytes, in place to `bits` mantissa bits."""
    dropped = MANTISSA_BITS - bits
    half = np.uint32((1 << (dropped - 1)) - 1)
    kept = np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    rounded = numbers >> np.uint32(dropped)
    rounded &= np.uint32(1)
    rounded += half
    rounded += numbers
    rounded &= kept
    size = numbers & ~_SIGN
    if size.max(initial=0) >= _INFINITY - half - np.uint32(1):
        special, too_large = size >= _INFINITY, (rounded & ~_SIGN) >= _INFINITY
        rounded = np.where(special, numbers, np.where(too_large, numbers & kept, rounded))
    numbers[...] = rounded
