"""Write docs/quantities.md from the quantities themselves.

python docs/make_quantities.py
"""

from __future__ import annotations

from pathlib import Path

from depthscope.quantities import QUANTITIES, Quantity

HEAD = """# Recorded quantities

Made by `python docs/make_quantities.py` from `depthscope.quantities`; change them there.

Sublayers l = 1..L in forward order (attention and MLP each count as one). h_l is what a sublayer reads, before its
own norm; f_l what it writes to the stream; s_l the stream after the write; v_i a source of depth mixing, v_0 the
embedding's output. t runs over tokens, d is the model's width, D the width of an outer state;
rms(x) = sqrt(mean over tokens and features of x²); ‖·‖ is the L2 norm of one token's vector. A row holds the values
at the parameters before its step's update.
"""


def section(title: str, quantities: list[Quantity]) -> str:
    """Return one table of quantities that share their dims."""
    lines = [
        f"## {title}",
        "",
        "| name | formula | unit | reduction | source and notes |",
        "|---|---|---|---|---|",
    ]
    for each in quantities:
        notes = ". ".join(
            text.rstrip(".")
            for text in (
                each.source,
                each.when,
                f"Derived from {', '.join(each.derived)}" if each.derived else "",
                each.note,
            )
            if text
        )
        cells = (f"`{each.name}`: {each.long_name}", each.formula, each.units, each.reduction, notes)
        lines.append("| " + " | ".join(cell.replace("||", "‖").replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page as Markdown."""
    groups: dict[tuple[str, ...], list[Quantity]] = {}
    for quantity in QUANTITIES.values():
        groups.setdefault((quantity.stream, *quantity.dims), []).append(quantity)
    sections = [
        section(f"{stream} stream, ({', '.join(('step', *dims))})", members)
        for (stream, *dims), members in groups.items()
    ]
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    Path(__file__).with_name("quantities.md").write_text(page(), encoding="utf-8")
