"""What findings need of a run: `depthscope.store.Run` has it, and so has any cache in front of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from depthscope.quantities import DepthLayout
from depthscope.store import Sweep


class ReadableRun(Protocol):
    """A recorded run, for reading."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def layout(self) -> DepthLayout: ...
    @property
    def last_step(self) -> int | None: ...
    @property
    def missing(self) -> Mapping[str, str]: ...

    def __contains__(self, name: str) -> bool: ...
    def sweeps(self) -> Sequence[Sweep]: ...
    def stream_of(self, name: str) -> str: ...
    def steps(self, stream: str) -> NDArray[np.int64]: ...
    def read(
        self,
        name: str,
        start: int | None = None,
        stop: int | None = None,
        layers: Sequence[int] | None = None,
        columns: int | None = None,
    ) -> xr.DataArray: ...
