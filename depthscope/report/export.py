"""Export: a figure as a file for a paper, and beside it its numbers, where they come from, and a caption."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from depthscope.figures import (
    PAPER_FORMATS,
    RANGES,
    Look,
    Panel,
    PaperFormat,
    Range,
    ReadableRun,
    look_up_paper,
    paper_bytes,
    paper_panels,
    told_apart,
)
from depthscope.report.caption import latex, plain, sentences
from depthscope.report.errors import ExportError, MatplotlibMissing
from depthscope.report.provenance import provenance
from depthscope.report.standalone import html_bytes
from depthscope.report.tidy import csv_bytes
from depthscope.report.width import inches

FORMATS = (*PAPER_FORMATS, "html", "csv")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What `export` wrote."""

    figure: Path
    beside: tuple[Path, ...]
    """The numbers (.csv), the provenance (.json) and, for PDF, SVG and PNG, the LaTeX (.tex)."""
    left_out: Mapping[str, str]
    """Runs that the figure shows nothing of, by name, and why."""
    loss_only: Mapping[str, str]
    """Runs of which the figure shows the loss and nothing else, by name, and why."""


def export(
    name: str,
    runs: ReadableRun | Sequence[ReadableRun],
    path: str | os.PathLike[str],
    width: str | float = "column",
    *,
    log: bool | None = None,
    scale: Range = "shared",
    slots: Mapping[str, int] | None = None,
    command: str | None = None,
    **options: Any,
) -> Exported:
    """Write figure `name` of `runs` to `path`, whose ending says how: .pdf, .svg, .png, .html or .csv.

    ``export("depth-profile", runs, "figures/profile.pdf", step=300)``. `width`: ``column`` (3.25 inches),
    ``text`` (6.75), a number of inches, or a text like ``8.2cm``. `log`: a log axis or colour scale, None: as the
    figure usually has it. `scale`: ``shared`` (one robust colour range for all runs), ``full`` or ``own``.
    `slots`: run ids to colours, counted from 1; None: in order. `command`: what was typed, for the provenance.
    `options` are the figure's own (`depthscope.figures.ProfileOptions`, ...).

    Beside `path` go a .csv with the drawn numbers, a .json with runs, steps, definitions and versions, and a .tex
    with the caption. The same inputs give the same bytes.

    KeyError for an unknown figure or quantity, TypeError for an unknown option, ValueError for a value that makes
    no sense and when no run has what the figure shows (it says why), ImportError for PDF, SVG and PNG without
    matplotlib, OSError when the folder cannot be written. Nothing is written then.
    """
    target = Path(path)
    form = _form(target)
    size = inches(width)
    if scale not in RANGES:
        raise ExportError(f"scale is {scale!r}; expected one of {', '.join(RANGES)}")
    chosen = told_apart(list(runs) if isinstance(runs, Sequence) else [runs])
    panels = paper_panels(name, chosen, **options)
    notes = (
        []
        if name in ("depth-profile", "outer-state", "skip-paths", "block-boundaries", "lens")
        else [_range(scale)]
    )
    caption = sentences(name, panels, chosen, notes=notes, paper=form != "html", log=log is not False)
    title = f"{name}: {', '.join(run.name for run in chosen)}"
    numbers = csv_bytes(panels)
    files: dict[Path, bytes] = {}
    if form == "html":
        files[target] = html_bytes(
            name,
            panels,
            title=title,
            caption=[plain(text) for text in caption],
            csv=numbers,
            slots={run.id: place for place, run in enumerate(chosen, start=1)} | dict(slots or {}),
            log=log is not False,
        )
    elif form != "csv":
        files[target] = _drawn(
            name,
            panels,
            cast("PaperFormat", form),
            title=title,
            width=size,
            order=[run.id for run in chosen],
            look=Look(slots=slots or {}),
            log=log,
            scale=scale,
        )
        files[target.with_suffix(".tex")] = _tex(name, target.name, form, size, caption)
    files[target.with_suffix(".csv")] = numbers
    files[target.with_suffix(".json")] = provenance(
        figure=name,
        file=target.name,
        width=size,
        command=command or _call(name, target, width, log=log, scale=scale, **options),
        caption=plain(" ".join(caption)),
        panels=panels,
        runs=chosen,
        drawing={"log": log, "scale": scale, "slots": dict(slots or {})},
    )
    _write(files)
    profiles = {key: panel for key, panel in panels.items() if panel.figure != "loss"}
    left_out = _left_out(panels, chosen)
    no_profile = _left_out(profiles, chosen) if profiles else {}
    return Exported(
        figure=target,
        beside=tuple(file for file in files if file != target),
        left_out=left_out,
        loss_only={run: reason for run, reason in no_profile.items() if run not in left_out},
    )


def _form(target: Path) -> str:
    form = target.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        found = f"ends in {target.suffix}" if target.suffix else "has no ending"
        expected = ", ".join(f".{known}" for known in FORMATS)
        raise ExportError(f"{target} {found}; expected one of {expected}")
    if target.is_dir():
        raise ExportError(f"{target} is a folder; expected the name of a file, as {target / 'figure.pdf'}")
    return form


def _drawn(name: str, panels: Mapping[str, Panel], form: PaperFormat, **more: Any) -> bytes:
    try:
        return paper_bytes(name, panels, form, **more)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise MatplotlibMissing from error


def _range(scale: Range) -> str:
    return {
        "shared": "Colours: one range for all runs.",
        "full": "Colours: one range for all runs, from the smallest to the largest value.",
        "own": "Colours: each run has its own range.",
    }[scale]


def _tex(name: str, file: str, form: str, width: float, caption: Sequence[str]) -> bytes:
    environment = "figure*" if width > 5 else "figure"
    include = "includesvg" if form == "svg" else "includegraphics"
    note = "% needs \\usepackage{svg}\n" if form == "svg" else ""
    body = "\n    ".join(latex(text) for text in caption)
    return (
        f"% {name}, drawn {width:g} inches wide: include it at this size and its text stays at 8 points.\n{note}"
        f"\\begin{{{environment}}}[t]\n  \\centering\n  \\{include}[width={width:g}in]{{{file}}}\n"
        f"  \\caption{{%\n    {body}\n  }}\n  \\label{{fig:{name}}}\n\\end{{{environment}}}\n"
    ).encode()


def _call(name: str, target: Path, width: str | float, **options: Any) -> str:
    """Return the call that made the figure, without the defaults."""
    usual = {"log": None, "scale": "shared"}
    told = "".join(f", {key}={value!r}" for key, value in options.items() if usual.get(key, ...) != value)
    return f"depthscope.export({name!r}, runs, {target.name!r}, width={width!r}{told})"


def _write(files: Mapping[Path, bytes]) -> None:
    """Write all files, each in one move, so that a figure on disk is always a whole one."""
    folder = next(iter(files)).parent
    folder.mkdir(parents=True, exist_ok=True)
    for target, content in files.items():
        draft = target.with_name(f".{target.name}.part")
        try:
            draft.write_bytes(content)
            os.replace(draft, target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def _left_out(panels: Mapping[str, Panel], runs: Sequence[ReadableRun]) -> dict[str, str]:
    drawn = {run for panel in panels.values() for run in panel.data.arrays}
    reasons: dict[str, str] = {}
    for panel in reversed(list(panels.values())):
        reasons |= panel.data.absent
    return {run.name: reasons.get(run.id, "") for run in runs if run.id not in drawn}


def figures_for_paper() -> dict[str, str]:
    """Return the figures that can be exported, by name, and what each shows."""
    from depthscope.figures import PAPER_FIGURES

    return {name: look_up_paper(name).shows for name in PAPER_FIGURES}
