"""What a PDF holds, read with pypdf: width, fonts, sizes of type, dates."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

import pypdf


@dataclass(frozen=True, kw_only=True)
class Pdf:
    pages: int
    width: float
    """Inches."""
    fonts: list[tuple[str, str, bool]]
    """(subtype of the font, of its descendant, embedded as TrueType)"""
    sizes: list[float]
    """Points, of all text."""
    metadata: dict[str, Any]


def read_pdf(content: bytes) -> Pdf:
    reader = pypdf.PdfReader(io.BytesIO(content))
    page = reader.pages[0]
    stream = page.get_contents()
    assert stream is not None
    text = stream.get_data().decode("latin-1")
    return Pdf(
        pages=len(reader.pages),
        width=float(page.mediabox.width) / 72,
        fonts=[_font(entry.get_object()) for entry in page["/Resources"]["/Font"].values()],  # type: ignore[index]
        sizes=[float(size) for size in re.findall(r"/F\S+ ([0-9.]+) Tf", text)],
        metadata=dict(reader.metadata or {}),
    )


def _font(font: Any) -> tuple[str, str, bool]:
    descendants = font.get("/DescendantFonts")
    below = descendants[0].get_object() if descendants else font
    descriptor = below["/FontDescriptor"].get_object()
    return str(font["/Subtype"]), str(below["/Subtype"]), "/FontFile2" in descriptor
