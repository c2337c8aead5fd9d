"""The value axis of a panel: one choice of scale, range and ticks, which the page and the paper both draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.limits import Limits, axis_range, has_logarithm
from depthscope.figures.ticks import short_number, value_ticks

NO_LOGARITHM = "no value above zero, so linear"


@dataclass(frozen=True, kw_only=True)
class ValueAxis:
    """Scale and range of a value axis; the ends are in decades when it is logarithmic."""

    low: float
    high: float
    log: bool
    note: str = ""
    """Why the axis is another than the one asked for; empty where it is not."""

    @property
    def ticks(self) -> list[float]:
        return value_ticks(self.low, self.high, log=self.log)

    @property
    def tick_text(self) -> list[str]:
        return [short_number(tick).replace("-", "−") for tick in self.ticks]

    @property
    def ends(self) -> tuple[float, float]:
        """The two ends in shown units."""
        return (10.0**self.low, 10.0**self.high) if self.log else (self.low, self.high)

    def drawable(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return `values` with a gap where one has no place on the axis; a line would go down to the floor."""
        given = np.asarray(values, dtype=np.float64)
        return np.where(np.isfinite(given) & ((given > 0) | (not self.log)), given, np.nan)

    def plotly(self) -> dict[str, Any]:
        """Return the part of a plotly axis that this is."""
        return {
            "type": "log" if self.log else "linear",
            "range": [self.low, self.high],
            "tickvals": self.ticks,
            "ticktext": self.tick_text,
        }


def value_axis(
    arrays: Iterable[xr.DataArray],
    *,
    log: bool,
    signed: bool,
    held: Mapping[str, Limits | None] = MappingProxyType({}),
) -> ValueAxis:
    """Return the axis that holds every value of `arrays`, and `held`: limits of a ``log`` and a ``linear`` axis.

    `log` is asked for; the axis is linear where values are `signed` or none is above zero. A linear axis of what
    is not signed begins at zero.
    """
    shown = list(arrays)
    possible = held.get("log") is not None or has_logarithm(shown)
    drawn = log and not signed and possible
    low, high = axis_range(held.get("log" if drawn else "linear"), shown, log=drawn, signed=signed)
    empty = not any(bool(np.isfinite(array.values).any()) for array in shown)
    note = "" if possible or signed or empty or not log else NO_LOGARITHM
    return ValueAxis(low=float(low), high=float(high), log=drawn, note=note)
