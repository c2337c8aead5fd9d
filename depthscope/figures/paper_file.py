"""Paper figures as files: the same numbers give the same bytes, whenever and wherever they are drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from depthscope.figures.limits import Range
from depthscope.figures.look import Look
from depthscope.figures.paper_figure import Panel, draw_paper

PaperFormat = Literal["pdf", "svg", "png"]
PAPER_FORMATS: tuple[PaperFormat, ...] = get_args(PaperFormat)
_METADATA: Mapping[PaperFormat, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "depthscope"},
    "svg": {"Date": None, "Creator": "depthscope"},
    "png": {"Software": None},
}
"""Without dates, which would make each file another one."""
PNG_DPI = 300


def paper_bytes(
    name: str,
    panels: Mapping[str, Panel],
    form: PaperFormat,
    *,
    title: str,
    width: float,
    order: Sequence[str],
    look: Look | None = None,
    log: bool | None = None,
    scale: Range = "shared",
) -> bytes:
    """Return a paper figure as the bytes of a PDF, SVG or PNG file of exactly `width` inches; see `draw_paper`."""
    from depthscope.figures.paper import type_settings

    with type_settings():
        drawing = draw_paper(name, panels, width=width, order=order, look=look, log=log, scale=scale)
        out = io.BytesIO()
        metadata = {**_METADATA[form], "Title": title}
        drawing.savefig(out, format=form, metadata=metadata, dpi=PNG_DPI)
    return out.getvalue()
