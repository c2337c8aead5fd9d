"""Rows as they are before storage rounds them, for those who check the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from depthscope.recording.assemble import Sink


class Watched:
    """A sink that tells of every row."""

    def __init__(self, sink: Sink, tell: Callable[[str, int, Mapping[str, Any]], None]) -> None:
        self._sink, self._tell = sink, tell

    def append(self, stream: str, step: int, values: Mapping[str, Any]) -> bool:
        self._tell(stream, step, {name: np.array(value, np.float64) for name, value in values.items()})
        return self._sink.append(stream, step, values)


class Rows:
    """Keeps the last row of every stream, all streams together by quantity."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.count = 0
        """Rows of the fast stream."""

    def __call__(self, stream: str, step: int, values: Mapping[str, Any]) -> None:
        self.values |= values
        self.count += stream == "fast"
