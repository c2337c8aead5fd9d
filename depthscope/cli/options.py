"""Types of arguments whose errors say what was found and what was expected."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """Read a whole number of 1 or more."""
    return _whole(text, 1, None)


def natural(text: str) -> int:
    """Read a whole number of 0 or more."""
    return _whole(text, 0, None)


def port(text: str) -> int:
    """Read a TCP port."""
    return _whole(text, 1, 65535)


def port_or_any(text: str) -> int:
    """Read a TCP port, or 0 for any free one."""
    return _whole(text, 0, 65535)


def _whole(text: str, least: int, most: int | None) -> int:
    expected = f"{least} or more" if most is None else f"{least} to {most}"
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number, {expected}") from None
    if value < least or (most is not None and value > most):
        raise argparse.ArgumentTypeError(f"found {text}, expected a whole number, {expected}")
    return value


def designs(texts: list[str]) -> tuple[str, ...]:
    """Return design strings from words and comma-separated lists: ``prenorm,hires:n=2,B=4`` are two.

    A part like ``B=4`` belongs to the design before it, and so does a number, which no design is called.
    """
    found: list[str] = []
    for text in texts:
        for part in filter(None, (part.strip() for part in text.split(","))):
            if found and ":" not in part and ("=" in part or part.isdecimal()):
                found[-1] = f"{found[-1]},{part}"
            else:
                found.append(part)
    return tuple(found)
