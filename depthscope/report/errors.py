"""What keeps a figure from being exported, each with what to type instead."""

from __future__ import annotations


class ExportError(ValueError):
    """A figure cannot be exported as asked."""


class MatplotlibMissing(ImportError):
    """PDF, SVG and PNG are drawn by matplotlib, which is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "PDF, SVG and PNG need matplotlib: pip install 'depthscope[report]'. "
            "Files ending in .html and .csv need nothing more."
        )
