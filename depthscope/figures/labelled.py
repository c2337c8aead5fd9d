"""What a figure's data function returns: labelled arrays, one per run, before any renderer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import xarray as xr

from depthscope.figures.readable import ReadableRun

Options = TypeVar("Options")


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The numbers of one figure.

    `arrays` maps run ids, in drawing order, to what is drawn of that run; `absent` maps the ids of the other
    runs to the reason in words. `attributes` describe the whole figure: quantity, label, units, mode.
    """

    arrays: Mapping[str, xr.DataArray]
    absent: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Run names by id, as the researcher gave them: escape before any HTML."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    references: Mapping[str, xr.DataArray] = field(default_factory=dict)
    """Curves that belong to no run, by label, e.g. ``1/(l+1)``."""


class Absent(Exception):
    """Raised while a run's part is computed: the run has nothing to draw, and why."""


def per_run(
    runs: Iterable[ReadableRun], part: Callable[[ReadableRun], xr.DataArray]
) -> tuple[dict[str, xr.DataArray], dict[str, str], dict[str, str]]:
    """Compute `part` of each run; a run that cannot be read never takes the others with it.

    Returns the arrays, the reasons of the runs without one, and all names, each by run id.
    """
    arrays: dict[str, xr.DataArray] = {}
    absent: dict[str, str] = {}
    names: dict[str, str] = {}
    for run in runs:
        names[run.id] = run.name
        try:
            arrays[run.id] = part(run)
        except Absent as reason:
            absent[run.id] = str(reason)
        except (OSError, ValueError, KeyError) as error:
            absent[run.id] = f"cannot be read: {_without_path(error, run.name)}"
    return arrays, absent, names


def _without_path(error: Exception, name: str) -> str:
    """Say what is wrong with the run by its name: figures travel, paths mean nothing elsewhere."""
    path = getattr(error, "path", None)
    return str(error) if path is None else str(error).replace(str(path), name)
