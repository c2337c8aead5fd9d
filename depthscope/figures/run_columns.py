"""Runs side by side in one plotly figure, each with an axis of positions in its blocks."""

from __future__ import annotations

from typing import Any

import xarray as xr

from depthscope.figures.block_boundaries_axes import position_ticks
from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis
from depthscope.figures.names import shortened

_GAP = 0.04


class RunColumns:
    """Where the columns of some runs lie, and what stands over them."""

    def __init__(self, shown: dict[str, xr.DataArray], data: Labelled, look: Look) -> None:
        self._shown = shown
        self._data = data
        self._look = look

    def suffix(self, place: int) -> str:
        """Return how the axes of column `place`, from 0, are numbered: nothing, 2, 3."""
        return "" if place == 0 else str(place + 1)

    def position_axis(self, place: int, ends: list[float]) -> dict[str, Any]:
        """Return the horizontal axis of column `place` from the first of `ends` to the second."""
        array = list(self._shown.values())[place]
        positions = array.sizes["position"]
        width = (1 - _GAP * (len(self._shown) - 1)) / max(len(self._shown), 1)
        left = place * (width + _GAP)
        return axis(
            self._look,
            ticks=True,
            title="position in block",
            range=ends,
            domain=[left, left + width],
            anchor=f"y{self.suffix(place)}",
            tickvals=position_ticks(positions),
        )

    def described(self) -> dict[str, Any]:
        """Return what is told over the plots and on hovering: names, steps, and which sublayer is where."""
        return {
            "columns": self._titles(),
            "steps": {run: int(array["step"].values) for run, array in self._shown.items()},
            "places": {run: array["layer"].values.tolist() for run, array in self._shown.items()},
            "kinds": {run: array.attrs["layer_kinds"] for run, array in self._shown.items()},
        }

    def _titles(self) -> list[dict[str, Any]]:
        """Return the run of each column, its colour's slot (None for a control) and its name."""
        order = list(self._data.arrays)
        found = []
        for place, (run, array) in enumerate(self._shown.items()):
            control = array.attrs["control"]
            name = shortened(self._data.names.get(run, run), 24)
            found.append(
                {
                    "run": run,
                    "slot": None if control else self._look.slot(run, order),
                    "name": f"{name} (control)" if control else name,
                    "axis": self.suffix(place),
                }
            )
        return found
