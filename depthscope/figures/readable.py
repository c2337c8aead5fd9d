"""What a figure needs of a run: `depthscope.store.Run` has it, and so has the app's cache in front of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from depthscope.analysis import ReadableRun as FoundRun


class ReadableRun(FoundRun, Protocol):
    """A recorded run, for reading: what findings need of one, and what names and labels it."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def quantities(self) -> Collection[str]: ...
    @property
    def streams(self) -> Mapping[str, Any]: ...
