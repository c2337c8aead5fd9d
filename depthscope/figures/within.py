"""Options that are numbers, and between which two they make sense."""

from __future__ import annotations


def require_within(name: str, value: float | None, least: float, most: float | None = None) -> None:
    """Raise ValueError with the valid range where `value` lies outside; None, as most options' default, is valid."""
    if value is None or (value >= least and (most is None or value <= most)):
        return
    expected = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
    raise ValueError(f"{name} is {value}; expected {expected}")
