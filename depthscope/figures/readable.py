"""What a figure needs of a run: `depthscope.store.Run` has it, and so has the app's cache in front of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.quantities import DepthLayout


class ReadableRun(Protocol):
    """A recorded run, for reading."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def layout(self) -> DepthLayout: ...
    @property
    def last_step(self) -> int | None: ...
    @property
    def quantities(self) -> Collection[str]: ...
    @property
    def missing(self) -> Mapping[str, str]: ...

    @property
    def streams(self) -> Mapping[str, Any]: ...

    def __contains__(self, name: str) -> bool: ...
    def steps(self, stream: str) -> npt.NDArray[np.int64]: ...
    def read(
        self,
        name: str,
        start: int | None = None,
        stop: int | None = None,
        layers: Sequence[int] | None = None,
        columns: int | None = None,
    ) -> xr.DataArray: ...
