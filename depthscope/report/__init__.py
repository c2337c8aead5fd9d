"""Export: figures as files for papers, with their numbers, captions and provenance beside them."""

from depthscope.report.errors import ExportError, MatplotlibMissing
from depthscope.report.export import FORMATS, Exported, export, figures_for_paper
from depthscope.report.tidy import Table, csv_bytes, table_of
from depthscope.report.width import WIDTHS, inches

__all__ = [
    "FORMATS",
    "WIDTHS",
    "ExportError",
    "Exported",
    "MatplotlibMissing",
    "Table",
    "csv_bytes",
    "export",
    "figures_for_paper",
    "inches",
    "table_of",
]
