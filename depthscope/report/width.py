"""The width of a paper figure: a name, or a number with its unit."""

from __future__ import annotations

import math
import re

from depthscope.report.errors import ExportError

WIDTHS = {"column": 3.25, "text": 6.75}
"""Inches: one column, and the whole width of a page in two columns."""
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
_LEAST, _MOST = 2.0, 20.0


def inches(width: str | float) -> float:
    """Return a width in inches: ``column`` (3.25), ``text`` (6.75), ``3.25in``, ``8.2cm``, ``234pt`` (TeX points).

    ExportError for anything else, and outside 2 to 20 inches, where no text of 8 points finds room.
    """
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    found = float(width) if isinstance(width, int | float) else _parsed(width)
    if found is None or not math.isfinite(found):
        raise ExportError(
            f"width is {width!r}; expected {' or '.join(WIDTHS)}, or a number with its unit "
            f"({', '.join(_INCHES)}): 3.25in, 8.2cm"
        )
    if not _LEAST <= found <= _MOST:
        raise ExportError(f"width is {width!r}, {found:.3g} inches; expected {_LEAST:g} to {_MOST:g} inches")
    return found


def _parsed(text: str) -> float | None:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(in|cm|mm|pt)?\s*", text)
    return None if match is None else float(match[1]) * _INCHES[match[2] or "in"]
