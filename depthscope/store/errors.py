"""What can be wrong with a path that should hold a run: each error says what was found and what to type."""

from __future__ import annotations

import shlex
from pathlib import Path

FORMAT = 1
"""The newest format of a run on disk that this version writes and reads."""


class RunError(ValueError):
    """A run could not be opened. `path` is the folder that was asked for."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


class NotARun(RunError):
    """The path holds no run."""


class NewerFormat(RunError):
    """The run was written by a newer version of depthscope."""


class CorruptRun(RunError):
    """The run's files contradict one another or are damaged."""


class CorruptSweep(CorruptRun):
    """A sweep's files are damaged. `found` is what is wrong with them, without the path."""

    def __init__(self, path: Path, found: str) -> None:
        again = f"Delete it and measure again: rm -r {shlex.quote(str(path))}"
        super().__init__(path, f"the sweep {path} is damaged: {found}. {again}")
        self.found = found


class RunLocked(RunError):
    """Another recorder is writing the run."""


class SchemaError(RunError):
    """A run cannot be resumed with this model: it was recorded with another one."""


def not_a_run(path: Path) -> NotARun:
    """Describe what lies at `path` instead of a run."""
    expected = "a run is a folder with run.json in it, as depthscope.Recorder(model, path) makes it"
    if not path.exists():
        return NotARun(
            path, f"{path} does not exist; {expected}. To list the runs below a folder: depthscope ls FOLDER"
        )
    if path.is_file():
        return NotARun(path, f"{path} is a file; {expected}")
    parent = next((p for p in (path.parent, path.parent.parent) if (p / "run.json").is_file()), None)
    if parent is not None:
        return NotARun(path, f"{path} is a part of the run {parent}; open {parent} instead")
    inside = sorted(entry.name for entry in path.iterdir())[:5]
    found = f"holds {', '.join(inside)}" if inside else "is empty"
    return NotARun(
        path, f"{path} {found}, but no run.json; {expected}. To list the runs below it: depthscope ls {path}"
    )


def newer_format(path: Path, found: object) -> NewerFormat:
    return NewerFormat(
        path,
        f"{path} has format {found}; this depthscope reads formats up to {FORMAT}. "
        "Update it: pip install -U depthscope",
    )


def corrupt(path: Path, what: str) -> CorruptRun:
    return CorruptRun(path, f"the run {path} is damaged: {what}")
