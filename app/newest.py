"""What is taken from the newest records of some runs and stands still while steps move, as the ends of a scale."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from depthscope.app.reading import CachedRun

Options = TypeVar("Options", bound=Hashable)
Found = TypeVar("Found")


def of_newest(
    find: Callable[[Sequence[CachedRun], Options], Found], runs: Sequence[CachedRun], options: Options
) -> Found:
    """Return ``find(runs, options)``, kept until one of the runs has new rows."""
    versions = tuple((run.id, run.version_mark()) for run in runs)
    found: Found = _found(_Newest(versions=versions, options=options, find=find, runs=tuple(runs)))
    return found


@dataclass(frozen=True, kw_only=True)
class _Newest:
    """The newest records of some runs; equal as long as no run has new rows."""

    versions: tuple[tuple[str, str], ...]
    options: Hashable
    find: Callable[..., Any]
    runs: tuple[CachedRun, ...] = field(compare=False)


@lru_cache(maxsize=64)
def _found(newest: _Newest) -> Any:
    return newest.find(newest.runs, newest.options)
