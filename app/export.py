"""Export from a page: the figure that `depthscope export` writes, as one archive for the browser to save."""

from __future__ import annotations

import io
import shlex
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import PAPER_FIGURES
from depthscope.report import FORMATS, export
from depthscope.store import Run

WIDTHS = ("column", "text")
FigureOptions = Callable[[Ask, Sequence[CachedRun]], Mapping[str, Any]]
_ONE_AT_A_TIME = threading.Lock()
"""Matplotlib's settings belong to the process."""


@dataclass(frozen=True, kw_only=True)
class PageFigure:
    """The figure that a page exports, and how its controls become the figure's options."""

    name: str
    options: FigureOptions


def archive(
    figure: PageFigure,
    ask: Ask,
    runs: Sequence[CachedRun],
    slots: Mapping[str, int],
    *,
    form: str,
    width: str,
    root: Path,
) -> tuple[str, bytes]:
    """Return the name and the bytes of a .zip with the figure, its numbers, its provenance and its caption.

    `root` is the folder that is served. ValueError when no run has what the figure shows, ImportError for PDF, SVG and PNG without matplotlib.
    """
    form = form if form in FORMATS else "pdf"
    width = width if width in WIDTHS else "column"
    stored = [run.run for run in runs]
    options = dict(figure.options(ask, runs))
    ids = {run.id: run.run.id for run in runs}
    for key in ("baseline", "focus", "pinned_runs"):
        if options.get(key):
            value = options[key]
            options[key] = ids.get(value) if isinstance(value, str) else [ids[run] for run in value]
    name = f"{figure.name}.{form}"
    packed = io.BytesIO()
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as folder:
        export(
            figure.name,
            stored,
            Path(folder) / name,
            width,
            log=ask.log,
            scale=ask.range,
            slots={ids[run]: slot for run, slot in slots.items() if run in ids},
            command=_command(figure.name, name, width, ask, {run.id: run for run in stored}, options, root),
            **options,
        )
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archived:
            for path in sorted(Path(folder).iterdir()):
                # A fixed date: the same figure gives the same bytes.
                archived.writestr(zipfile.ZipInfo(path.name), path.read_bytes())
    return f"{figure.name}.zip", packed.getvalue()


def _command(
    figure: str,
    file: str,
    width: str,
    ask: Ask,
    runs: Mapping[str, Run],
    options: Mapping[str, Any],
    root: Path,
) -> str:
    """Return the line that writes the same figure in a terminal, typed in the folder that is served."""
    places = {run: stored.path.relative_to(root).as_posix() for run, stored in runs.items()}
    words = ["depthscope", "export", *places.values(), "--figure", figure]
    for entry in fields(PAPER_FIGURES[figure].options):
        value, usual = options.get(entry.name), entry.default
        if entry.name in ("name", "columns") or value is None or value == usual or value in ((), []):
            continue
        if entry.name == "baseline":
            # It says what a difference is taken from, and nothing else.
            words += ["--baseline", places[str(value)]] if options.get("mode") == "difference" else []
        elif entry.name in ("step", "quantity", "mode"):
            words += [f"--{entry.name}", str(value)]
        else:
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            words += ["--option", f"{entry.name}={text}"]
    words += ["--scale", ask.range] if ask.range != "shared" else []
    words += [] if ask.log else ["--linear"]
    return shlex.join([*words, "-o", file, "--width", width])
