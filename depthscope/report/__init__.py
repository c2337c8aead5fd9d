"""Export: figures as files for papers, with their numbers, captions and provenance beside them."""

from depthscope.report.errors import ExportError, MatplotlibMissing
from depthscope.report.export import FORMATS, Exported, export, figures_for_paper
from depthscope.report.width import WIDTHS, inches

__all__ = [
    "FORMATS",
    "WIDTHS",
    "ExportError",
    "Exported",
    "MatplotlibMissing",
    "export",
    "figures_for_paper",
    "inches",
]
