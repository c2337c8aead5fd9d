"""Arrays as plotly reads them without a detour over JSON lists (15 times the server time)."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

_CODES = {"float32": "f4", "float64": "f8", "int32": "i4", "int16": "i2", "uint8": "u1"}


def typed(array: npt.ArrayLike) -> dict[str, Any]:
    """Return ``{dtype, bdata, shape}``; half precision becomes single, 64-bit integers double."""
    values = np.ascontiguousarray(array)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    elif values.dtype.kind in "iu" and values.dtype.name not in _CODES:
        values = values.astype(np.float64)
    values = values.astype(values.dtype.newbyteorder("<"))
    encoded: dict[str, Any] = {
        "dtype": _CODES[values.dtype.name],
        "bdata": base64.b64encode(values.tobytes()).decode("ascii"),
    }
    if values.ndim > 1:
        encoded["shape"] = ", ".join(str(size) for size in values.shape)
    return encoded


def untyped(value: Any) -> Any:
    """Return a figure described by dicts and lists with its typed arrays as numpy arrays again."""
    if isinstance(value, list):
        return [untyped(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "bdata" not in value:
        return {key: untyped(item) for key, item in value.items()}
    flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=f"<{value['dtype']}")
    return flat.reshape([int(size) for size in value.get("shape", str(flat.size)).split(",")])
