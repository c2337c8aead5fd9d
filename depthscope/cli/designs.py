"""What `depthscope demo --designs ?` prints: every design with its options."""

from __future__ import annotations

import textwrap

ALL = "?"
"""Typed in place of a design, it asks for all of them."""


def designs_text() -> str:
    """Return the name, the label, an example and the options of every design, as they are typed."""
    from depthscope.models import DESIGNS

    width = max(map(len, DESIGNS))
    lines = ["Designs, each with an example and its options as they are typed:", ""]
    for design in DESIGNS.values():
        example = f", e.g. {design.example}" if design.options else ""
        lines.append(f"{design.name:<{width}}  {design.label}{example}")
        options = "; ".join(option.example for option in design.options.values())
        indent = " " * (width + 4)
        lines += textwrap.wrap(options, 100, initial_indent=indent, subsequent_indent=indent)
    lines += [
        "",
        "Options follow a colon and are separated by commas, the numbers of a list by +:",
        "  depthscope demo --designs prenorm hires:n=2,B=4 block-attnres:boundaries=4+10+16",
    ]
    return "\n".join(lines)
