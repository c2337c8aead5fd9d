"""Tables: with rich in a terminal that is wide enough, else aligned plain text; nothing is ever cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from shutil import get_terminal_size


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column's title and side."""

    title: str
    right: bool = False
    """Right-aligned, for numbers."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts under their titles.

    A table wider than the terminal is printed plain: lines that the terminal wraps stay readable and can be
    copied, cells folded one by one cannot.
    """
    text = plain_table(columns, rows)
    width = max(map(len, text.splitlines()))
    if sys.stdout.isatty() and width <= get_terminal_size().columns:
        _print_rich(columns, rows)
    else:
        print(text)


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return the table as aligned text, two spaces between columns."""
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: names are never read as markup
    Console().print(table)
