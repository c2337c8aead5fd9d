"""Any configuration a training script may hold, as plain JSON that every reader can parse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, is_dataclass
from datetime import date
from pathlib import PurePath
from typing import Any

import numpy as np


def jsonable(value: Any) -> Any:
    """Return `value` with everything that JSON has no word for written as text.

    Non-finite numbers become the strings ``NaN``, ``Infinity`` and ``-Infinity``: the bare tokens that Python
    writes are refused by other zarr readers.
    """
    if value is None or isinstance(value, str | bool | int):
        return value if type(value) in (str, bool, int, type(None)) else _plain(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return jsonable(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, AbstractSet):
        return sorted((jsonable(item) for item in value), key=str)
    if isinstance(value, PurePath | date):
        return str(value)
    return repr(value)


def _plain(value: Any) -> Any:
    """Enums and other subclasses of str and int, as what they stand for."""
    if isinstance(value, bool):
        return bool(value)
    return str.__str__(value) if isinstance(value, str) else int(value)
