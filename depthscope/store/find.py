"""Runs below a folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from depthscope.store.errors import NotARun, RunError
from depthscope.store.folder import RANK, RECORD
from depthscope.store.run import Run, open_run

logger = logging.getLogger("depthscope.store")
_DEEPEST = 6


def run_folders(root: str | os.PathLike[str]) -> list[Path]:
    """Return the folders of all runs at or below `root`, sorted by path; links to folders are not followed.

    NotARun when `root` is no folder.
    """
    top = Path(root).absolute()
    if not top.is_dir():
        what = "is a file" if top.exists() else "does not exist"
        raise NotARun(
            top, f"{top} {what}; expected a folder with runs in it, as depthscope demo or a Recorder makes"
        )
    found: list[Path] = []
    _search(top, 0, found)
    return found


def find_runs(
    root: str | os.PathLike[str], *, broken: Callable[[Path, RunError], None] | None = None
) -> list[Run]:
    """Open all runs at or below `root`, sorted by path.

    A run that cannot be opened is left out: `broken` is called with its folder and the error (default: a
    warning in the log). NotARun when `root` is no folder.
    """
    runs = []
    for folder in run_folders(root):
        try:
            runs.append(open_run(folder))
        except RunError as error:
            if broken is None:
                logger.warning("%s", error)
            else:
                broken(folder, error)
    return runs


def _search(folder: Path, depth: int, found: list[Path]) -> None:
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == RECORD and entry.is_file() for entry in children):
        found.append(folder)
        return
    if depth < _DEEPEST:
        for entry in children:
            if entry.is_dir(follow_symlinks=False) and entry.name != RANK and not entry.name.startswith("."):
                _search(folder / entry.name, depth + 1, found)
